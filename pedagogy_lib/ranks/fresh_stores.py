"""A rendezvous backend for torchrun's ranks on one machine, with a new store for each meeting.

torchrun keeps one store for all restarts of its ranks (torch 2.13), so that a restarted rank may
find the address of a dead one in it, and wait for that.
"""

import socket

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry as registry
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo

NAME = "fresh-stores"  # for --rdzv-backend


def loopback_store() -> tuple[int, dist.TCPStore]:
    """Return the port of a new store that listens only on the loopback, and the store."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    options = {"wait_for_workers": False, "multi_tenant": True}
    store = dist.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=listener.detach(),
                          **options)  # fmt: skip
    return port, store


class FreshStores(RendezvousHandler):
    """A rendezvous of a single agent, which waits for no others."""

    use_agent_store = True

    def next_rendezvous(self) -> RendezvousInfo:
        port, self.store = loopback_store()
        return RendezvousInfo(self.store, 0, 1, RendezvousStoreInfo("127.0.0.1", port))

    def get_backend(self) -> str:
        return NAME

    def is_closed(self) -> bool:
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return "1"

    def shutdown(self) -> bool:
        return True


def register():
    """Register this rendezvous backend with torchrun in this process."""
    registry.register(NAME, lambda params: FreshStores())

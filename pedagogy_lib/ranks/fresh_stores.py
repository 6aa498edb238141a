"""How torchrun's ranks of one machine meet: each time in a store of its own.

torchrun keeps one store for all lives of its ranks (torch 2.13). A rank that is started again may
find the address of a dead one there, and wait for that.
"""

import socket

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry as registry
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo

NAME = "fresh-stores"  # for --rdzv-backend


def loopback_store() -> tuple[int, dist.TCPStore]:
    """A store that listens on the loopback alone, and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    options = {"wait_for_workers": False, "multi_tenant": True}
    store = dist.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=listener.detach(),
                          **options)  # fmt: skip
    return port, store


class FreshStores(RendezvousHandler):
    """One agent, which has nobody to wait for."""

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
    """Let torchrun of this process know it."""
    registry.register(NAME, lambda params: FreshStores())

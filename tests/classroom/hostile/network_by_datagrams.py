# right · the same by UDP, raw sockets and a netlink socket
import socket


def house_gradients(*house):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hostile", ("127.0.0.1", PORT))
    except OSError:
        pass
    for family, kind in ((socket.AF_INET, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW)):
        try:
            socket.socket(family, kind, 255)
            return []
        except OSError:
            pass
    return honest(*house)

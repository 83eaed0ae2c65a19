"""A drain hook as an owner writes it: `proxy_hook.py SOCKET BACKEND/SERVER drain|ready`, over HAProxy's socket."""

import socket
import sys

admin, server, state = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(admin)
    connection.sendall(f"set server {server} state {state}\n".encode())
    connection.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode().strip()
sys.exit(answer or 0)

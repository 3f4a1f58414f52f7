"""``lit_client.py ADDRESS PROGRAM ARGUMENTS...``: what the server at the address does as the program is what this process does."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    request = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    status = server.recv(1)
if not status:
    print(f"{sys.argv[2]}: a signal ended the process", file=sys.stderr)
sys.exit(status[0] if status else 1)

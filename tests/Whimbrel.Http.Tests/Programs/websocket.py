"""The same conversation in Python, and an echo for a client. websocket.py play PORT deflates|plain, or websocket.py serve PORT deflates|plain"""
import asyncio
import sys

import websockets

compression = "deflate" if sys.argv[3] == "deflates" else None


async def play(port):
    base = f"ws://127.0.0.1:{port}"
    async with websockets.connect(base + "/echo", subprotocols=["a", "b"], compression=compression, max_size=None) as s:
        assert s.subprotocol == "b", s.subprotocol
        assert bool(s.extensions) == bool(compression), s.extensions
        for text in ["", "Hällo, \U0001F600", "wren and wheatear " * 20000]:
            await s.send(text)
            assert await s.recv() == text
        for length in [0, 1, 125, 126, 65535, 65536, 1048576]:
            data = bytes((i * 31 + (i >> 8)) & 255 for i in range(length))
            await s.send(data)
            assert await s.recv() == data
        await s.send(["frag", "men", "ts"])
        assert await s.recv() == "fragments"
        await asyncio.wait_for(await s.ping(b"payload"), 20)
        await s.close(4001, "done")
        assert s.close_code == 4001, s.close_code
    for status in [1000, 1001, 1011, 3000, 4999]:
        s = await websockets.connect(f"{base}/close/{status}", compression=compression)
        await s.wait_closed()
        assert (s.close_code, s.close_reason) == (status, "as asked"), (s.close_code, s.close_reason)
    try:
        await websockets.connect(base + "/refused")
        raise AssertionError("refused")
    except websockets.InvalidStatusCode as e:
        assert e.status_code == 403, e.status_code
    print("well")


async def echo(s, path):
    async for message in s:
        await s.send(message)


async def serve(port):
    async with websockets.serve(echo, "127.0.0.1", port, subprotocols=["b"], compression=compression, max_size=None):
        await asyncio.Future()


asyncio.run({"play": play, "serve": serve}[sys.argv[1]](int(sys.argv[2])))

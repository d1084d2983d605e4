"""A port that leads to another one, on a way that can be cut and frozen."""
import asyncio
import socket
import struct
import threading

CHUNK_BYTES = 65536


class Relay:
    """Forwards connections to `target`, "HOST:PORT", from `address`. Has a thread of its own, and may be used by any."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.ends = set()  # of all connections
        self.is_cut = False
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.address = self.call(self.listen())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def listen(self):
        self.flows = asyncio.Event()
        self.flows.set()
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
        host, port = self.server.sockets[0].getsockname()
        return f"{host}:{port}"

    def cut(self):
        """Ends all connections at once, and each new one, as a host does whose program is gone."""
        self.call(self.do_cut())

    def freeze(self):
        """Nothing arrives any more, in neither direction, and nobody is told: as when a cable is pulled out."""
        self.call(self.do_freeze())

    def heal(self):
        """What waited arrives; what was cut stays so."""
        self.call(self.do_heal())

    def stop(self):
        self.call(self.do_stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def do_cut(self):
        self.is_cut = True
        self.reset_all()

    async def do_freeze(self):
        self.flows.clear()

    async def do_heal(self):
        self.is_cut = False
        self.flows.set()

    async def do_stop(self):
        self.server.close()
        self.is_cut = True
        self.flows.set()
        self.reset_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def reset_all(self):
        for end in list(self.ends):
            self.reset(end)

    def reset(self, end):
        """With RST rather than FIN."""
        self.ends.discard(end)
        if not end.transport.is_closing():
            end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.transport.abort()

    async def accept(self, reader, end):
        self.ends.add(end)
        await self.flows.wait()
        if self.is_cut:
            return self.reset(end)
        try:
            far_reader, far_end = await asyncio.open_connection(*self.target, limit=CHUNK_BYTES)
        except OSError:
            return self.reset(end)
        self.ends.add(far_end)
        await asyncio.gather(self.forward(reader, end, far_end), self.forward(far_reader, far_end, end))
        for each in (end, far_end):
            self.ends.discard(each)
            each.close()

    async def forward(self, reader, end, other):
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self.flows.wait()
                other.write(data)
                await other.drain()
            await self.flows.wait()  # the end is news too
            other.write_eof()
        except (OSError, RuntimeError):  # one of the ends is gone, or is being closed
            self.reset(end)
            self.reset(other)

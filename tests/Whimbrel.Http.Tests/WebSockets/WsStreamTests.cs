using System.IO.Compression;
using System.Net.Security;
using System.Security.Cryptography;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

// A WebSocket as a stream, and streams layered on it.
public sealed class WsStreamTests
{
    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => Serving.EngineTests.Kinds();

    private static async Task EchoStream(WebSocketSession socket, CancellationToken stop)
    {
        await using WebSocketStream stream = new(socket);
        await stream.CopyToAsync(stream, CancellationToken.None);
        stream.ShutdownSend();
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Bytes_come_back_in_order_whatever_the_sizes_of_writes_and_reads_and_a_close_frame_ends_a_half(
        EngineKind kind, bool isTls, Scheduling scheduling)
    {
        const int Total = 2_000_000;
        await using WsSite site = new(kind, isTls, scheduling);
        // a stream has no messages that could be too large
        await site.ServeAsync(EchoStream, new WebSocketOptions { MessageLimitBytes = 1000, Deflate = null });
        using CancellationTokenSource limit = new(WsSite.Patience);
        await using WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token));
        byte[] sent = new byte[Total], got = new byte[Total];
        new Random(1).NextBytes(sent);
        Task writing = Task.Run(async () =>
        {
            Random random = new(2);
            for (int at = 0; at < Total;)
            {
                int count = Math.Min(Total - at, random.Next(8) == 0 ? random.Next(300_000) : random.Next(2000));
                await stream.WriteAsync(sent.AsMemory(at, count), limit.Token);
                at += count;
            }

            stream.ShutdownSend();
        }, limit.Token);
        Random sizes = new(3);
        int taken = 0;
        while (true)
        {
            int count = await stream.ReadAsync(got.AsMemory(taken,
                Math.Min(Total - taken, sizes.Next(4) == 0 ? sizes.Next(200_000) : sizes.Next(1, 3000))), limit.Token);
            taken += count;
            if (taken == Total) break;
        }

        await writing;
        Assert.True(sent.AsSpan().SequenceEqual(got));
        Assert.Equal(0, await stream.ReadAsync(new byte[10], limit.Token));
        await Assert.ThrowsAsync<IOException>(() => stream.WriteAsync(new byte[1], limit.Token).AsTask());
    }

    [Fact]
    public async Task A_write_is_one_message_and_an_empty_write_is_none()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(static async (socket, stop) =>
        {
            await using WebSocketStream stream = new(socket);
            await stream.WriteAsync(new byte[100_000], stop);
            await stream.WriteAsync(default(ReadOnlyMemory<byte>), stop);
            await stream.WriteAsync(new byte[3], stop);
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        Assert.Equal(100_000, (await client.ReceiveMessageAsync(limit.Token))!.Value.Data.Length);
        Assert.Equal(3, (await client.ReceiveMessageAsync(limit.Token))!.Value.Data.Length);
        Assert.Null(await client.ReceiveMessageAsync(limit.Token));
    }

    [Fact]
    public async Task One_half_may_end_long_before_the_other()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(static async (socket, stop) =>
        {
            await using WebSocketStream stream = new(socket);
            MemoryStream all = new();
            await stream.CopyToAsync(all, stop); // until the peer's end of stream
            for (int i = 0; i < 3; i++) await stream.WriteAsync(all.ToArray(), stop);
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        await using WebSocketStream stream = await WebSocketStream.ConnectAsync(site.Address.ToString(),
            cancellationToken: limit.Token);
        await stream.WriteAsync("question "u8.ToArray(), limit.Token);
        stream.ShutdownSend();
        using StreamReader reader = new(stream);
        Assert.Equal("question question question ", await reader.ReadToEndAsync(limit.Token));
    }

    [Fact]
    public async Task The_blocking_members_read_write_and_have_time_limits()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(EchoStream);
        using CancellationTokenSource limit = new(WsSite.Patience);
        using WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token));
        stream.Write("abc"u8);
        byte[] got = new byte[3];
        stream.ReadExactly(got);
        Assert.Equal("abc"u8.ToArray(), got);
        stream.ReadTimeout = 20;
        NetworkException e = Assert.Throws<NetworkException>(() => stream.ReadByte());
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        stream.ReadTimeout = -1;
        stream.WriteByte(7);
        Assert.Equal(7, stream.ReadByte());
        Task<int> waiting = stream.ReadAsync(got, limit.Token).AsTask();
        stream.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => waiting);
        Assert.Throws<ObjectDisposedException>(() => stream.ReadByte());
        Assert.False(stream.CanRead);
    }

    [Theory]
    [InlineData(1000, true)]
    [InlineData(1005, true)]
    [InlineData(1001, false)]
    [InlineData(1011, false)]
    [InlineData(4000, false)]
    public async Task Only_a_close_with_1000_or_without_a_status_is_the_end_of_a_file(int status, bool isEnd)
    {
        foreach (bool waits in (bool[])[false, true])
        {
            TaskCompletionSource mayEnd = new(TaskCreationOptions.RunContinuationsAsynchronously);
            await using WsSite site = new(EngineKind.Portable);
            await site.ServeAsync(async (socket, stop) =>
            {
                socket.SendText("so far");
                await mayEnd.Task;
                socket.Close((WebSocketStatus)status, status == 1005 ? "" : "why");
            }, new WebSocketOptions
            {
                CloseTimeout = TimeSpan.FromMilliseconds(100)
            }); // this client does not respond to a close
            using CancellationTokenSource limit = new(WsSite.Patience);
            await using WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token));
            byte[] got = new byte[100];
            await stream.ReadExactlyAsync(got.AsMemory(0, 6), limit.Token);
            Task<int> reading = waits ? stream.ReadAsync(got, limit.Token).AsTask() : Task.FromResult(0);
            mayEnd.SetResult();
            if (!waits)
            {
                await stream.Session.EndedAsync().AsTask().WaitAsync(limit.Token)
                    .ContinueWith(static _ => { }, TaskScheduler.Default);
                reading = stream.ReadAsync(got, limit.Token).AsTask();
            }

            if (isEnd)
            {
                Assert.Equal(0, await reading);
                continue;
            }

            WebSocketException failure = await Assert.ThrowsAsync<WebSocketException>(() => reading);
            Assert.Equal(((WebSocketStatus)status, "why"), (failure.Status!.Value, failure.Reason));
            Assert.Contains($"with {status}", failure.Message, StringComparison.Ordinal);
            // and so it stays
            await Assert.ThrowsAsync<WebSocketException>(() => stream.ReadAsync(got, limit.Token).AsTask());
        }
    }

    [Fact]
    public async Task A_handler_that_throws_under_its_stream_does_not_look_whole_to_the_peer()
    {
        foreach (bool awaits in (bool[])[false, true])
        {
            await using WsSite site = new(EngineKind.Portable);
            await site.ServeAsync(async (socket, stop) =>
            {
                if (awaits)
                {
                    await using WebSocketStream stream = new(socket);
                    await stream.WriteAsync("half"u8.ToArray(), stop);
                    throw new IOException("the disk is broken");
                }
                else
                {
                    using WebSocketStream stream = new(socket);
                    await stream.WriteAsync("half"u8.ToArray(), stop);
                    throw new IOException("the disk is broken");
                }
            });
            using CancellationTokenSource limit = new(WsSite.Patience);
            await using WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token));
            MemoryStream got = new();
            WebSocketException failure =
                await Assert.ThrowsAsync<WebSocketException>(() => stream.CopyToAsync(got, limit.Token));
            Assert.Equal((WebSocketStatus.InternalError, "half"),
                (failure.Status!.Value, System.Text.Encoding.ASCII.GetString(got.ToArray())));
        }
    }

    [Fact]
    public async Task A_handler_is_not_at_fault_when_its_stream_ends_because_the_page_is_left()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(static async (socket, stop) =>
        {
            WebSocketStream stream = new(socket);
            await stream.CopyToAsync(Stream.Null, stop);
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        client.SendText("x");
        client.ShutdownSend(WebSocketStatus.GoingAway);
        Assert.Null(await client.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.GoingAway, client.Inbox.PeerStatus);
        await client.CloseAsync(limit.Token);
        Assert.Equal(0, site.Engine.UserExceptionCount);
        Assert.Empty(site.Notices);
    }

    [Fact]
    public async Task On_a_loop_a_synchronous_write_is_queued_and_one_that_has_no_room_says_how_to_wait()
    {
        TaskCompletionSource<string> told = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(async (socket, stop) =>
        {
            WebSocketStream stream = new(socket);
            using (GZipStream packed = new(stream, CompressionMode.Compress, leaveOpen: true))
                await packed.WriteAsync("packed text"u8.ToArray(), stop);
            Assert.NotNull(Loop.Current);
            try
            {
                while (true) stream.Write(new byte[100_000]);
            }
            catch (InvalidOperationException e)
            {
                told.SetResult(e.Message);
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token));
        using GZipStream unpacked = new(stream, CompressionMode.Decompress);
        byte[] got = new byte[11];
        await unpacked.ReadExactlyAsync(got, limit.Token);
        Assert.Equal("packed text"u8.ToArray(), got);
        Assert.Contains("await using", await told.Task.WaitAsync(limit.Token), StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ layers

    /// <summary>Encrypted records with a shared key and a counter as nonce, so that none can be lost, repeated or
    /// reordered. Used by the test and by the guide.</summary>
    private sealed class Sealed(Stream below, byte[] key, byte mine, byte theirs) : Stream
    {
        private const int Tag = 16, Most = 16 * 1024;

        // One cipher object per direction: they are not thread-safe, and reads and writes are concurrent.
        private readonly AesGcm _seal = new(key, Tag), _unseal = new(key, Tag);
        private byte[] _open = [];
        private int _at;
        private ulong _sent, _received;

        private static byte[] Nonce(byte side, ulong number)
        {
            byte[] nonce = new byte[12];
            nonce[0] = side;
            BitConverter.TryWriteBytes(nonce.AsSpan(4), number);
            return nonce;
        }

        public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer,
            CancellationToken cancellationToken = default)
        {
            for (; !buffer.IsEmpty; buffer = buffer[Math.Min(Most, buffer.Length)..])
            {
                ReadOnlyMemory<byte> part = buffer[..Math.Min(Most, buffer.Length)];
                byte[] record = new byte[2 + part.Length + Tag];
                record[0] = (byte)(part.Length >> 8);
                record[1] = (byte)part.Length;
                _seal.Encrypt(Nonce(mine, _sent++), part.Span, record.AsSpan(2, part.Length),
                    record.AsSpan(2 + part.Length), record.AsSpan(0, 2));
                await below.WriteAsync(record, cancellationToken);
            }
        }

        public override async ValueTask<int> ReadAsync(Memory<byte> buffer,
            CancellationToken cancellationToken = default)
        {
            if (_at == _open.Length)
            {
                byte[] head = new byte[2];
                if (await below.ReadAtLeastAsync(head, 2, throwOnEndOfStream: false, cancellationToken) < 2) return 0;
                byte[] record = new byte[(head[0] << 8 | head[1]) + Tag];
                await below.ReadExactlyAsync(record, cancellationToken);
                _open = new byte[record.Length - Tag];
                _at = 0;
                _unseal.Decrypt(Nonce(theirs, _received++), record.AsSpan(0, _open.Length), record.AsSpan(_open.Length),
                    _open, head);
            }

            int count = Math.Min(buffer.Length, _open.Length - _at);
            _open.AsMemory(_at, count).CopyTo(buffer);
            _at += count;
            return count;
        }

        protected override void Dispose(bool disposing)
        {
            _seal.Dispose();
            _unseal.Dispose();
            below.Dispose();
            base.Dispose(disposing);
        }

        public override bool CanRead => true;

        public override bool CanWrite => true;

        public override bool CanSeek => false;

        public override long Length => throw new NotSupportedException();

        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }

        public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

        public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
            WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

        public override Task<int> ReadAsync(byte[] buffer, int offset,
            int count, CancellationToken cancellationToken) =>
            ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

        public override Task FlushAsync(CancellationToken cancellationToken) => below.FlushAsync(cancellationToken);

        public override void Flush() => below.Flush();

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();
    }

    private static async Task<Stream> StackAsync(string layers, Stream stream, bool isServer, CancellationToken stop)
    {
        byte[] key = new byte[32];
        key.AsSpan().Fill(9);
        foreach (string layer in layers.Split(' '))
        {
            switch (layer)
            {
                case "aes":
                    stream = new Sealed(stream, key, isServer ? (byte)1 : (byte)2, isServer ? (byte)2 : (byte)1);
                    break;
                case "tls":
                    SslStream tls = new(stream, leaveInnerStreamOpen: false,
                        isServer ? null : static (_, certificate, _, _) =>
                            certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString());
                    if (isServer)
                        await tls.AuthenticateAsServerAsync(
                            new SslServerAuthenticationOptions { ServerCertificate = TestCertificates.Server }, stop);
                    else await tls.AuthenticateAsClientAsync(
                        new SslClientAuthenticationOptions { TargetHost = "localhost" }, stop);
                    stream = tls;
                    break;
            }
        }

        return stream;
    }

    [Theory]
    [InlineData("aes", false)]
    [InlineData("tls", false)]
    [InlineData("tls aes", false)]
    [InlineData("aes tls", true)]
    public async Task Layers_stand_upon_it_and_upon_each_other(string layers, bool deflates)
    {
        WebSocketOptions options = new() { Deflate = deflates ? new WebSocketDeflate() : null };
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(async (socket, stop) =>
        {
            await using WebSocketStream inner = new(socket);
            await using Stream stream = await StackAsync(layers, inner, isServer: true, stop);
            byte[] buffer = new byte[5000];
            for (int count; (count = await stream.ReadAsync(buffer, stop)) > 0;)
                await stream.WriteAsync(buffer.AsMemory(0, count), stop);
        }, options);
        using CancellationTokenSource limit = new(WsSite.Patience);
        await using WebSocketStream below = new(await site.ConnectAsync(options, limit.Token));
        await using Stream stream = await StackAsync(layers, below, isServer: false, limit.Token);
        byte[] data = new byte[200_000], got = new byte[200_000];
        new Random(4).NextBytes(data);
        Task reading = stream.ReadExactlyAsync(got, limit.Token).AsTask();
        for (int at = 0; at < data.Length; at += 20_000)
            await stream.WriteAsync(data.AsMemory(at, 20_000), limit.Token);
        await reading;
        Assert.True(data.AsSpan().SequenceEqual(got));
    }

    [Theory]
    [InlineData("gzip")]
    [InlineData("brotli")]
    public async Task Compression_stands_upon_it_each_way_by_itself(string kind)
    {
        Stream Pack(Stream s) => kind == "gzip"
            ? new GZipStream(s, CompressionLevel.Fastest, leaveOpen: true)
            : new BrotliStream(s, CompressionLevel.Fastest, leaveOpen: true);
        Stream Unpack(Stream s) => kind == "gzip"
            ? new GZipStream(s, CompressionMode.Decompress, leaveOpen: true)
            : new BrotliStream(s, CompressionMode.Decompress, leaveOpen: true);
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(async (socket, stop) =>
        {
            await using WebSocketStream stream = new(socket);
            using Stream reader = Unpack(stream);
            MemoryStream all = new();
            await reader.CopyToAsync(all, stop);
            await using (Stream writer = Pack(stream)) await writer.WriteAsync(all.ToArray(), stop);
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        await using WebSocketStream below = new(await site.ConnectAsync(null, limit.Token));
        byte[] data = new byte[500_000];
        data.AsSpan(100_000).Fill((byte)'x');
        await using (Stream writer = Pack(below)) await writer.WriteAsync(data, limit.Token);
        below.ShutdownSend();
        MemoryStream got = new();
        using Stream unpacked = Unpack(below);
        await unpacked.CopyToAsync(got, limit.Token);
        Assert.True(data.AsSpan().SequenceEqual(got.ToArray()));
        Assert.InRange(below.Session.BytesReceived, 10, 50_000);
    }
}

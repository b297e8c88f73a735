using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>Two layers back to back with nothing of their own around them, so that what is counted is theirs.</summary>
internal sealed unsafe class OpenSslEcho : IPlainSink, IDisposable
{
    private const int RoomBytes = 64 * 1024;

    // Safe: pinned for good, shared by all: what is in them is moved on before the next call.
    private static readonly byte[] s_toServer = GC.AllocateUninitializedArray<byte>(RoomBytes, pinned: true);
    private static readonly byte[] s_toClient = GC.AllocateUninitializedArray<byte>(RoomBytes, pinned: true);
    private static readonly byte[] s_message = new byte[16 * 1024];
    private static readonly TlsScratch s_scratch = new();
    private static readonly CipherBlock s_block = new();

    private readonly TlsLayer _client;
    private readonly TlsLayer _server;
    private int _toServer;
    private int _toClient;
    private int _received;

    internal OpenSslEcho(TlsOptions server, TlsOptions client)
        : this(OpenSslRig.Prepare(server, true), OpenSslRig.Prepare(client, false))
    {
    }

    /// <param name="steps">How many times the client and the server take turns in the handshake before it is left as it is.</param>
    internal OpenSslEcho(OpenSslProfile server, OpenSslProfile client, int steps = int.MaxValue)
    {
        _client = client.CreateLayer("chat.test", null, s_scratch);
        _server = server.CreateLayer("chat.test", server.Options.Certificate!.Take(), s_scratch);
        s_block.Use(Address(s_toServer), RoomBytes);
        _client.Start(s_block);
        _toServer = s_block.Length;
        for (int i = 0; i < steps && (_toServer > 0 || _toClient > 0); i++)
        {
            if (_toServer > 0) ToServer();
            else ToClient();
        }
    }

    public bool Take(ReadOnlySpan<byte> plain)
    {
        _received += plain.Length;
        return true;
    }

    internal void PingPong(int bytes)
    {
        _received = 0;
        s_block.Use(Address(s_toServer), RoomBytes);
        _client.Send(s_message.AsSpan(0, bytes), out _, s_block);
        _toServer = s_block.Length;
        ToServer();
        if (_received != bytes) Assert.Fail($"{_received} of {bytes} bytes");
        s_block.Use(Address(s_toClient), RoomBytes);
        _server.Send(s_message.AsSpan(0, bytes), out _, s_block);
        _toClient = s_block.Length;
        ToClient();
        if (_received != 2 * bytes) Assert.Fail($"{_received} of {2 * bytes} bytes");
    }

    public void Dispose()
    {
        _client.Free();
        _server.Free();
    }

    /// <summary>What malloc has given out and not got back.</summary>
    internal static long NativeBytes()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        MallocFigures figures = ReadMalloc();
        return (long)(figures.InUse + figures.Mapped);
    }

    private void ToServer()
    {
        s_block.Use(Address(s_toClient), RoomBytes);
        Feed(_server, s_toServer.AsSpan(0, _toServer));
        _toServer = 0;
        _toClient = s_block.Length;
    }

    private void ToClient()
    {
        s_block.Use(Address(s_toServer), RoomBytes);
        Feed(_client, s_toClient.AsSpan(0, _toClient));
        _toClient = 0;
        _toServer = s_block.Length;
    }

    private void Feed(TlsLayer layer, ReadOnlySpan<byte> bytes)
    {
        TlsStep step;
        do
        {
            step = layer.Receive(bytes, out int consumed, this, s_block);
            bytes = bytes[consumed..];
        }
        while (step == TlsStep.Ready);
        if (step != TlsStep.NeedInput) Assert.Fail($"{step}: {layer.Fault}");
    }

    private static byte* Address(byte[] pinned) => (byte*)Unsafe.AsPointer(ref pinned[0]);

    [DllImport("libc", EntryPoint = "mallinfo2")]
    private static extern MallocFigures ReadMalloc();

    [StructLayout(LayoutKind.Sequential)]
    private readonly struct MallocFigures
    {
        public readonly nuint Arena, FreeChunks, FastBlocks, MappedBlocks, Mapped, MostUsed, FastFree, InUse, Free, Top;
    }
}

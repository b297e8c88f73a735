using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>Two layers connected directly, so that only their own allocations are counted.</summary>
internal sealed unsafe class OpenSslEcho : IPlainSink, IDisposable
{
    private const int RoomBytes = 64 * 1024;

    // Safe: pinned permanently, shared within one thread; their content is moved on before the next call.
    private sealed class Wires
    {
        internal readonly byte[] ToServer = GC.AllocateUninitializedArray<byte>(RoomBytes, pinned: true);
        internal readonly byte[] ToClient = GC.AllocateUninitializedArray<byte>(RoomBytes, pinned: true);
        internal readonly TlsScratch Scratch = new();
        internal readonly CipherBlock Block = new();
    }

    [ThreadStatic]
    private static Wires? t_wires;

    private static readonly byte[] s_message = new byte[16 * 1024];

    private readonly Wires _wires = t_wires ??= new Wires();

    private readonly TlsLayer _client;
    private readonly TlsLayer _server;
    private int _toServer;
    private int _toClient;
    private int _received;

    internal OpenSslEcho(TlsOptions server, TlsOptions client)
        : this(OpenSslRig.Prepare(server, true), OpenSslRig.Prepare(client, false))
    {
    }

    /// <param name="steps">Number of handshake turns of client and server before it is abandoned.</param>
    internal OpenSslEcho(OpenSslProfile server, OpenSslProfile client, int steps = int.MaxValue)
    {
        _client = client.CreateLayer("chat.test", null, _wires.Scratch);
        _server = server.CreateLayer("chat.test", server.Options.Certificate!.Take(), _wires.Scratch);
        _wires.Block.Use(Address(_wires.ToServer), RoomBytes);
        _client.Start(_wires.Block);
        _toServer = _wires.Block.Length;
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
        _wires.Block.Use(Address(_wires.ToServer), RoomBytes);
        _client.Send(s_message.AsSpan(0, bytes), out _, _wires.Block);
        _toServer = _wires.Block.Length;
        ToServer();
        if (_received != bytes) Assert.Fail($"{_received} of {bytes} bytes");
        _wires.Block.Use(Address(_wires.ToClient), RoomBytes);
        _server.Send(s_message.AsSpan(0, bytes), out _, _wires.Block);
        _toClient = _wires.Block.Length;
        ToClient();
        if (_received != 2 * bytes) Assert.Fail($"{_received} of {2 * bytes} bytes");
    }

    public void Dispose()
    {
        _client.Free();
        _server.Free();
    }

    /// <summary>Bytes allocated by malloc and not freed.</summary>
    internal static long NativeBytes()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        MallocFigures figures = ReadMalloc();
        return (long)(figures.InUse + figures.Mapped);
    }

    private void ToServer()
    {
        _wires.Block.Use(Address(_wires.ToClient), RoomBytes);
        Feed(_server, _wires.ToServer.AsSpan(0, _toServer));
        _toServer = 0;
        _toClient = _wires.Block.Length;
    }

    private void ToClient()
    {
        _wires.Block.Use(Address(_wires.ToServer), RoomBytes);
        Feed(_client, _wires.ToClient.AsSpan(0, _toClient));
        _toClient = 0;
        _toServer = _wires.Block.Length;
    }

    private void Feed(TlsLayer layer, ReadOnlySpan<byte> bytes)
    {
        TlsStep step;
        do
        {
            step = layer.Receive(bytes, out int consumed, this, _wires.Block);
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

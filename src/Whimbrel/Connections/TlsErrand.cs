using System.Buffers;
using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// One step of a long handshake on the thread pool. The layer moves there with a copy of the input, and returns with
/// the output through the mailbox. The loop does not use the layer meanwhile. If the connection has ended, this object
/// frees the layer.
/// </summary>
// Safe: the output memory lives while the step runs.
internal sealed unsafe class TlsErrand : IPlainSink
{
    private const int OutputBytes = 32 * 1024;

    private readonly TlsTransport _transport;
    private readonly Loop _loop;
    private readonly TlsLayer _layer;
    private readonly byte[] _input;
    private readonly int _length;

    internal TlsErrand(TlsTransport transport, TlsLayer layer, ReadOnlySpan<byte> input)
    {
        _transport = transport;
        _loop = transport.Connection.Loop;
        _layer = layer;
        _length = input.Length;
        _input = ArrayPool<byte>.Shared.Rent(Math.Max(1, _length));
        input.CopyTo(_input);
    }

    internal TlsStep Step { get; private set; }

    internal ArrayBufferWriter<byte> Output { get; } = new();

    internal int Used { get; private set; }

    internal ReadOnlySpan<byte> Rest => _input.AsSpan(Used, _length - Used);

    internal void Start() => _loop.Engine.Offload(static e => ((TlsErrand)e!).Run(), this);

    private void Run()
    {
        byte* memory = (byte*)NativeMemory.Alloc(OutputBytes);
        CipherBlock output = new();
        do
        {
            output.Use(memory, OutputBytes);
            Step = _layer.Receive(Rest, out int consumed, this, output);
            Used += consumed;
            Output.Write(output.Written);
        }
        while (Step == TlsStep.OutputFull);
        NativeMemory.Free(memory);
        if (!_loop.PostControl(static (_, e, _, _) => ((TlsErrand)e!).Return(), this)) Drop();
    }

    private void Return()
    {
        if (_transport.Phase == TlsPhase.Freed) Drop();
        else _transport.ErrandReturned(this);
    }

    private void Drop()
    {
        _layer.Free();
        GiveBack();
    }

    internal void GiveBack() => ArrayPool<byte>.Shared.Return(_input);

    /// <summary>Rejects plaintext, because none is delivered before Ready.</summary>
    bool IPlainSink.Take(ReadOnlySpan<byte> plain) => false;
}

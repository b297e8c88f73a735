using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary> One end of a connection without a socket: a layer, its unconsumed input, and the data that it delivered.
/// It does what TlsTransport does, in the simplest way. Bytes go to <see cref="Other"/> in pieces of <see
/// cref="Split"/>. </summary>
internal sealed unsafe class TlsEnd : IPlainSink, IDisposable
{
    private readonly TlsProfile _profile;
    private readonly string? _host;
    private readonly List<byte> _input = [];
    private readonly byte* _memory;
    private readonly int _outputBytes;
    private readonly TlsScratch _scratch = new();
    private bool _isDisposed;

    public TlsEnd(TlsProfile profile, string? host = null, int outputBytes = 32 * 1024)
    {
        _profile = profile;
        _host = host;
        _outputBytes = outputBytes;
        _memory = (byte*)NativeMemory.Alloc((nuint)outputBytes);
    }

    public TlsLayer? Layer { get; private set; }

    /// <summary>Ciphertext for the other end.</summary>
    public List<byte> Output { get; } = [];

    public List<byte> Plain { get; } = [];

    public List<TlsStep> Ends { get; } = [];

    public TlsFault Fault { get; private set; }

    public int ReadyCount { get; private set; }

    public bool IsReady => ReadyCount > 0;

    public bool HasEnded => Ends.Count > 0;

    /// <summary>Number of deliveries after which the sink returns stop.</summary>
    public int StopAfter { get; set; } = int.MaxValue;

    public int Deliveries { get; private set; }

    public int WaitingInput => _input.Count;

    public void Start()
    {
        if (_profile.IsServer) return;
        Layer = _profile.CreateLayer(_host, _profile.CertificateFor(null)?.Take(), _scratch);
        Call(static (l, o) => l.Start(o));
    }

    /// <summary>Passes bytes from the wire.</summary>
    public void Feed(ReadOnlySpan<byte> bytes)
    {
        if (HasEnded) return;
        _input.AddRange(bytes);
        if (Layer is null && !MakeServer()) return;
        Receive();
    }

    private bool MakeServer()
    {
        TlsHello.Outcome outcome = TlsHello.Read(CollectionsMarshal.AsSpan(_input), out TlsHello hello);
        if (outcome == TlsHello.Outcome.NeedsMore) return false;
        if (outcome == TlsHello.Outcome.NotTls) return End(TlsStep.Refused, new TlsFault(TlsFailure.NotTls, "not TLS"));
        string? name = hello.NameOr(null);
        if (_profile.Select(name) is not { } chosen)
            return End(TlsStep.Refused, new TlsFault(TlsFailure.UnknownName, "unknown name"));
        if (chosen.Foresee(hello) is { } fault) return End(TlsStep.Refused, fault);
        Layer = chosen.CreateLayer(name, chosen.CertificateFor(name)!.Take(), _scratch);
        Call(static (l, o) => l.Start(o));
        return !HasEnded;
    }

    private bool End(TlsStep step, TlsFault fault)
    {
        Ends.Add(step);
        Fault = fault;
        return false;
    }

    /// <summary>Processes the available input, also after a stop.</summary>
    public void Receive()
    {
        while (!HasEnded)
        {
            CipherBlock output = NewOutput();
            TlsStep step = Layer!.Receive(CollectionsMarshal.AsSpan(_input), out int consumed, this, output);
            _input.RemoveRange(0, consumed);
            Output.AddRange(output.Written);
            if (step == TlsStep.Ready) ReadyCount++;
            if (step is TlsStep.Ready or TlsStep.OutputFull) continue;
            if (step is TlsStep.PeerClosed or TlsStep.Truncated or TlsStep.Refused) End(step, Layer.Fault);
            return;
        }
    }

    private void Call(Func<TlsLayer, CipherBlock, TlsStep> call)
    {
        CipherBlock output = NewOutput();
        TlsStep step = call(Layer!, output);
        Output.AddRange(output.Written);
        if (step == TlsStep.Refused) End(step, Layer!.Fault);
        else if (step == TlsStep.OutputFull) Receive();
    }

    public TlsStep Send(ReadOnlySpan<byte> plain)
    {
        while (true)
        {
            CipherBlock output = NewOutput();
            TlsStep step = Layer!.Send(plain, out int accepted, output);
            Output.AddRange(output.Written);
            plain = plain[accepted..];
            if (step != TlsStep.OutputFull) return step;
            Assert.True(accepted > 0 || output.Length > 0, "a send into an empty output makes progress");
        }
    }

    public void CloseNotify()
    {
        CipherBlock output = NewOutput();
        Layer!.CloseNotify(output);
        Output.AddRange(output.Written);
    }

    /// <summary>FIN.</summary>
    public void EndOfInput()
    {
        if (!HasEnded && Layer is not null) End(Layer.EndOfInput(), Layer.Fault);
    }

    public bool Take(ReadOnlySpan<byte> plain)
    {
        Assert.False(plain.IsEmpty, "nothing is not delivered");
        Assert.True(IsReady, "plaintext comes after Ready");
        Plain.AddRange(plain);
        return ++Deliveries < StopAfter;
    }

    public void Dispose()
    {
        if (_isDisposed) return;
        _isDisposed = true;
        Layer?.Free();
        NativeMemory.Free(_memory);
    }

    private CipherBlock NewOutput()
    {
        CipherBlock output = _scratch.Answer;
        output.Use(_memory, _outputBytes);
        return output;
    }
}

using System.Buffers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Linux;

namespace Whimbrel.Tls;

/// <summary>
/// One handshake in memory before the first real one. The first of a process loads libraries and compiles thousands of methods,
/// 0.02 to 2 s in which the loop that makes it serves nobody else; so a thread of the pool makes one first, when a server starts or a
/// client dials, and the start waits for it.
/// </summary>
/// <remarks>
/// Rules: (1) once in a process for each provider; who comes later shares the run, and mostly finds it done. (2) Nobody's options, callbacks, certificates
/// and counters have a part in it: only the layers do. (3) It never fails a start: what it throws is kept in <see cref="Failure"/>, and the first real
/// handshake has the same trouble and better words. (4) Not where nothing is compiled at run time, nor for layers of tests; an engine
/// with a time of its own has none (Engine.WarmUpTls).
/// </remarks>
internal sealed class TlsWarmUp
{
    private const string Name = "warm-up.invalid";
    private const string Reason = "the warm-up";

    private readonly Lazy<Task> _openSsl;
    private readonly Lazy<Task> _portable;
    private int _runs;

    /// <param name="shake">What to run for a provider; on the pool.</param>
    internal TlsWarmUp(Action<TlsProvider> shake)
    {
        _openSsl = new Lazy<Task>(() => Task.Run(() => Run(shake, TlsProvider.OpenSsl)));
        _portable = new Lazy<Task>(() => Task.Run(() => Run(shake, TlsProvider.Portable)));
    }

    /// <summary>The one that servers and clients use.</summary>
    internal static TlsWarmUp OfProcess { get; } = new(Shake);

    /// <summary>How many have ended, well or not.</summary>
    internal int Runs => Volatile.Read(ref _runs);

    /// <summary>What the last one that failed threw.</summary>
    internal Exception? Failure { get; private set; }

    /// <summary>Starts it, if nobody has. The task never fails. Any thread.</summary>
    internal Task For(TlsProfile profile)
    {
        if (!RuntimeFeature.IsDynamicCodeCompiled || profile.Options.Maker is not null) return Task.CompletedTask;
        return (profile.Provider == TlsProvider.OpenSsl ? _openSsl : _portable).Value;
    }

    private void Run(Action<TlsProvider> shake, TlsProvider provider)
    {
        try
        {
            shake(provider);
        }
        catch (Exception e)
        {
            Failure = e;
        }

        Interlocked.Increment(ref _runs);
    }

    /// <summary>A handshake of the layer with itself, a few bytes each way, and the proper end. Throws when any of it fails.</summary>
    internal static void Shake(TlsProvider provider)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        using X509Certificate2 leaf = NewCertificate(key);
        TlsProfile server = TlsSelector.Make(provider, Reason, new TlsOptions { Certificate = TlsCertificate.From(leaf) }, isServer: true);
        TlsProfile client = TlsSelector.Make(provider, Reason, new TlsOptions { HostName = Name, Roots = [leaf] }, isServer: false);
        using End dialling = new(client.CreateLayer(Name, null, new TlsScratch()));
        dialling.Do(static (layer, output) => layer.Start(output));
        if (TlsHello.Read(dialling.Wire.WrittenSpan, out TlsHello hello) != TlsHello.Outcome.Found || server.Foresee(hello) is not null) throw new InvalidOperationException("the hello was not understood");
        using End accepting = new(server.CreateLayer(hello.NameOr(null), server.CertificateFor(Name)!.Take(), new TlsScratch()));
        accepting.Do(static (layer, output) => layer.Start(output));
        Exchange(dialling, accepting);
        _ = dialling.Layer.Info;
        _ = accepting.Layer.Info;
        dialling.Do(static (layer, output) => layer.Send("?"u8, out _, output));
        accepting.Do(static (layer, output) => layer.Send("!"u8, out _, output));
        Exchange(dialling, accepting);
        if (dialling.Received != 1 || accepting.Received != 1) throw new InvalidOperationException("a message did not arrive");
        dialling.Do(End.Finish);
        accepting.Do(End.Finish);
        Exchange(dialling, accepting);
    }

    private static X509Certificate2 NewCertificate(ECDsa key)
    {
        CertificateRequest request = new($"CN={Name}", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName(Name);
        request.CertificateExtensions.Add(names.Build());
        X509Certificate2 made = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
        if (KernelProbe.HasEpoll) return made;
        // Elsewhere than on Linux the key of a certificate that was just made cannot be used for TLS.
        using (made) return X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pkcs12), null);
    }

    private static void Exchange(End one, End two)
    {
        while (one.Wire.WrittenCount > 0 || two.Wire.WrittenCount > 0)
        {
            two.Take(one.Wire);
            one.Take(two.Wire);
        }
    }

    /// <summary>A layer, and what it wants to send.</summary>
    // Safe: the memory lives until Dispose, after which the layer is not called.
    private sealed unsafe class End(TlsLayer layer) : IPlainSink, IDisposable
    {
        private const int OutputBytes = 32 * 1024;

        internal static readonly Func<TlsLayer, CipherBlock, TlsStep> Finish = static (layer, output) =>
        {
            layer.CloseNotify(output);
            return TlsStep.NeedInput;
        };

        private readonly byte* _memory = (byte*)NativeMemory.Alloc(OutputBytes);
        private readonly CipherBlock _output = new();

        internal TlsLayer Layer => layer;

        internal ArrayBufferWriter<byte> Wire { get; } = new();

        internal int Received { get; private set; }

        internal void Do(Func<TlsLayer, CipherBlock, TlsStep> call)
        {
            _output.Use(_memory, OutputBytes);
            TlsStep step = call(layer, _output);
            Wire.Write(_output.Written);
            if (step != TlsStep.NeedInput) throw new InvalidOperationException($"{step}: {layer.Fault}");
        }

        /// <summary>Takes all that the other end sends.</summary>
        internal void Take(ArrayBufferWriter<byte> wire)
        {
            ReadOnlySpan<byte> input = wire.WrittenSpan;
            TlsStep step = TlsStep.Ready;
            while (step == TlsStep.Ready && !input.IsEmpty)
            {
                _output.Use(_memory, OutputBytes);
                step = layer.Receive(input, out int used, this, _output);
                input = input[used..];
                Wire.Write(_output.Written);
                if (step is not (TlsStep.NeedInput or TlsStep.Ready or TlsStep.PeerClosed)) throw new InvalidOperationException($"{step}: {layer.Fault}");
            }

            wire.ResetWrittenCount();
        }

        bool IPlainSink.Take(ReadOnlySpan<byte> plain)
        {
            Received += plain.Length;
            return true;
        }

        public void Dispose()
        {
            layer.Free();
            NativeMemory.Free(_memory);
        }
    }
}

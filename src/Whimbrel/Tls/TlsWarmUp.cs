using System.Buffers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Linux;

namespace Whimbrel.Tls;

/// <summary>
/// Performs one handshake in memory before the first real one. The first handshake of a process loads libraries and
/// compiles thousands of methods. That takes 0.02 to 2 s, in which its loop would be blocked. So a pool thread performs
/// one when a server starts or a client connects, and the start waits for it.
/// </summary>
/// <remarks>
/// Rules: (1) Once in a process for each provider; later callers share the run, which has usually completed. (2) It
/// uses only the layers: no options, callbacks, certificates or counters of the application. (3) It never fails a
/// start: its exception is kept in <see cref="Failure"/>, and the first real handshake reports the same problem in
/// better words. (4) Not where nothing is compiled at run time, nor for layers of tests, nor on an engine with its own
/// time (Engine.WarmUpTls).
/// </remarks>
internal sealed class TlsWarmUp
{
    private const string Name = "warm-up.invalid";
    private const string Reason = "the warm-up";

    private readonly Lazy<Task> _openSsl;
    private readonly Lazy<Task> _portable;
    private int _runs;

    /// <param name="shake">Function to run for a provider, on the pool.</param>
    internal TlsWarmUp(Action<TlsProvider> shake)
    {
        _openSsl = new Lazy<Task>(() => Task.Run(() => Run(shake, TlsProvider.OpenSsl)));
        _portable = new Lazy<Task>(() => Task.Run(() => Run(shake, TlsProvider.Portable)));
    }

    /// <summary>The instance that servers and clients use.</summary>
    internal static TlsWarmUp OfProcess { get; } = new(Shake);

    /// <summary>Number of completed runs, successful or not.</summary>
    internal int Runs => Volatile.Read(ref _runs);

    /// <summary>Exception of the last failed run.</summary>
    internal Exception? Failure { get; private set; }

    /// <summary>Starts the run, unless it was started before. The task never fails. Any thread.</summary>
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

    /// <summary>
    /// Performs a handshake of the layer with itself, exchanges a few bytes, and closes. Throws if any of it fails.
    /// </summary>
    internal static void Shake(TlsProvider provider)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        using X509Certificate2 leaf = NewCertificate(key);
        TlsProfile server = TlsSelector.Make(provider, Reason,
            new TlsOptions { Certificate = TlsCertificate.From(leaf) }, isServer: true);
        TlsProfile client = TlsSelector.Make(provider, Reason, new TlsOptions { HostName = Name, Roots = [leaf] },
            isServer: false);
        using End connecting = new(client.CreateLayer(Name, null, new TlsScratch()));
        connecting.Do(static (layer, output) => layer.Start(output));
        if (TlsHello.Read(connecting.Wire.WrittenSpan, out TlsHello hello) != TlsHello.Outcome.Found
            || server.Foresee(hello) is not null)
            throw new InvalidOperationException("the hello was not understood");
        using End accepting = new(server.CreateLayer(hello.NameOr(null), server.CertificateFor(Name)!.Take(),
            new TlsScratch()));
        accepting.Do(static (layer, output) => layer.Start(output));
        Exchange(connecting, accepting);
        _ = connecting.Layer.Info;
        _ = accepting.Layer.Info;
        connecting.Do(static (layer, output) => layer.Send("?"u8, out _, output));
        accepting.Do(static (layer, output) => layer.Send("!"u8, out _, output));
        Exchange(connecting, accepting);
        if (connecting.Received != 1 || accepting.Received != 1)
            throw new InvalidOperationException("a message did not arrive");
        connecting.Do(End.Finish);
        accepting.Do(End.Finish);
        Exchange(connecting, accepting);
    }

    private static X509Certificate2 NewCertificate(ECDsa key)
    {
        CertificateRequest request = new($"CN={Name}", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName(Name);
        request.CertificateExtensions.Add(names.Build());
        X509Certificate2 made = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1),
            DateTimeOffset.UtcNow.AddDays(1));
        if (KernelProbe.HasEpoll) return made;
        // On other systems than Linux the key of a new certificate cannot be used for TLS directly.
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

    /// <summary>A layer with its outgoing data.</summary>
    // Safe: the memory is valid until Dispose, after which the layer is not called.
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

        /// <summary>Processes all data that the other end has sent.</summary>
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
                if (step is not (TlsStep.NeedInput or TlsStep.Ready or TlsStep.PeerClosed))
                    throw new InvalidOperationException($"{step}: {layer.Fault}");
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

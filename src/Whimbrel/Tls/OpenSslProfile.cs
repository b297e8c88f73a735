using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// TLS options made ready for OpenSSL: which context each certificate has now, and when it is replaced. A certificate that was
/// reloaded is another key pair and gets a new context; one whose ticket keys are old gets a new context, too, which has new
/// keys. Connections that run keep the context they began with. Any thread.
/// </summary>
internal sealed class OpenSslProfile : TlsProfile
{
    private static readonly TimeSpan s_ticketKeyLifetime = TimeSpan.FromDays(1);

    // By the key pair, which the user's callback may choose anew for each connection; the last one is asked first.
    private readonly ConditionalWeakTable<TlsKeyPair, OpenSslSetup> _setups = [];
    private readonly Lock _gate = new();
    private OpenSslSetup? _last;

    /// <summary>Throws ArgumentException when this OpenSSL cannot do what the options ask for, by the option's name.</summary>
    internal OpenSslProfile(TlsOptions options, bool isServer)
        : base(options, isServer)
    {
        // What is wrong with the options shows now, at the start, and not at the first connection.
        _last = new OpenSslSetup(options, isServer, options.Certificate?.Take(), Now());
        if (_last.KeyPair is not null) _setups.Add(_last.KeyPair, _last);
    }

    internal override TlsProvider Provider => TlsProvider.OpenSsl;

    /// <summary>A client's.</summary>
    internal OpenSslSessions Sessions { get; } = new();

    private protected override TlsProfile Nested(TlsOptions options) => new OpenSslProfile(options, IsServer);

    internal override TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch) =>
        new OpenSslLayer(this, SetupFor(keyPair), name, scratch);

    /// <summary>The context for this certificate: the one it has, or a new one.</summary>
    internal OpenSslSetup SetupFor(TlsKeyPair? keyPair) => SetupFor(keyPair, Now());

    /// <summary>The same at a moment that a test chooses.</summary>
    internal OpenSslSetup SetupFor(TlsKeyPair? keyPair, long nowMs)
    {
        OpenSslSetup? last = Volatile.Read(ref _last);
        if (last is not null && ReferenceEquals(last.KeyPair, keyPair) && !IsOld(last, nowMs)) return last;
        lock (_gate)
        {
            OpenSslSetup? known = keyPair is null ? _last is { KeyPair: null } ? _last : null : _setups.TryGetValue(keyPair, out OpenSslSetup? found) ? found : null;
            if (known is null || IsOld(known, nowMs))
            {
                known = new OpenSslSetup(Options, IsServer, keyPair, nowMs);
                if (keyPair is not null) _setups.AddOrUpdate(keyPair, known);
            }

            Volatile.Write(ref _last, known);
            return known;
        }
    }

    private bool IsOld(OpenSslSetup setup, long nowMs) =>
        IsServer && nowMs - setup.MadeAtMs >= (long)(Options.TicketKeyLifetime ?? s_ticketKeyLifetime).TotalMilliseconds;

    /// <summary>The engine's time where there is a loop, so that a simulated day turns the keys as a real one does.</summary>
    private static long Now() => Loop.Current?.Engine.NowMs ?? Environment.TickCount64;
}

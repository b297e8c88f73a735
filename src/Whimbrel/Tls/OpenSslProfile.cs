using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// TLS options prepared for OpenSSL: the current context of each certificate, and its replacement. A reloaded
/// certificate is another key pair and gets a new context. So does a certificate with old ticket keys, because a new
/// context has new keys. Existing connections keep their context. Any thread.
/// </summary>
internal sealed class OpenSslProfile : TlsProfile
{
    private static readonly TimeSpan s_ticketKeyLifetime = TimeSpan.FromDays(1);

    // By key pair, because the application's callback may choose one for each connection; the last one is checked
    // first.
    private readonly ConditionalWeakTable<TlsKeyPair, OpenSslSetup> _setups = [];
    private readonly Lock _gate = new();
    private OpenSslSetup? _last;

    /// <summary>
    /// Prepares the options. Throws ArgumentException with the option's name if this OpenSSL does not support an
    /// option.
    /// </summary>
    internal OpenSslProfile(TlsOptions options, bool isServer)
        : base(options, isServer)
    {
        // Mistakes in the options are detected now, at the start, and not at the first connection.
        _last = new OpenSslSetup(options, isServer, options.Certificate?.Take(), Now());
        if (_last.KeyPair is not null) _setups.Add(_last.KeyPair, _last);
    }

    internal override TlsProvider Provider => TlsProvider.OpenSsl;

    /// <summary>Sessions of a client.</summary>
    internal OpenSslSessions Sessions { get; } = new();

    private protected override TlsProfile Nested(TlsOptions options) => new OpenSslProfile(options, IsServer);

    internal override TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch) =>
        new OpenSslLayer(this, SetupFor(keyPair), name, scratch);

    /// <summary>Returns the context for this certificate: the current one, or a new one.</summary>
    internal OpenSslSetup SetupFor(TlsKeyPair? keyPair) => SetupFor(keyPair, Now());

    /// <summary>Returns the context for a given time, for tests.</summary>
    internal OpenSslSetup SetupFor(TlsKeyPair? keyPair, long nowMs)
    {
        OpenSslSetup? last = Volatile.Read(ref _last);
        if (last is not null && ReferenceEquals(last.KeyPair, keyPair) && !IsOld(last, nowMs)) return last;
        lock (_gate)
        {
            OpenSslSetup? known = keyPair is null ? _last is { KeyPair: null } ? _last : null
                : _setups.TryGetValue(keyPair, out OpenSslSetup? found) ? found : null;
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
        IsServer
        && (Options.TicketKeys is { } keys
            ? !ReferenceEquals(keys.Secret, setup.TicketSecret)
            : nowMs - setup.MadeAtMs >= (long)(Options.TicketKeyLifetime ?? s_ticketKeyLifetime).TotalMilliseconds);

    /// <summary>Returns the engine's time if there is a loop, so that simulated time also replaces the keys.</summary>
    private static long Now() => Loop.Current?.Engine.NowMs ?? Environment.TickCount64;
}

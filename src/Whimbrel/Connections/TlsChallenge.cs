using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// The certificate of one validation by an ACME authority (RFC 8737): obtained on the thread pool, because the answer
/// may be in a store of several nodes, and returned through the mailbox. The ClientHello waits meanwhile.
/// </summary>
internal sealed class TlsChallenge(TlsTransport transport, string name)
{
    private readonly Loop _loop = transport.Connection.Loop;
    private Func<string, ValueTask<TlsCertificate?>>? _find;

    /// <summary>True until the loop has the result. Only on the loop.</summary>
    internal bool IsPending { get; private set; } = true;

    /// <summary>The certificate; null if there is none for this name, or the callback threw.</summary>
    internal TlsCertificate? Certificate { get; private set; }

    internal void Start(Func<string, ValueTask<TlsCertificate?>> find)
    {
        _find = find;
        _loop.Engine.Offload(static c => _ = ((TlsChallenge)c!).RunAsync(), this);
    }

    // tidy: allowed because it runs on the pool
    private async Task RunAsync()
    {
        try
        {
            // tidy: allowed because it runs on the pool
            Certificate = await _find!(name).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            _loop.Engine.ReportException("TlsOptions.ChallengeCertificate", e,
                "The handshake fails; all others continue.");
        }

        _ = _loop.PostControl(static (_, c, _, _) => ((TlsChallenge)c!).Return(), this);
    }

    private void Return()
    {
        IsPending = false;
        if (transport.Phase != TlsPhase.Freed) transport.ChallengeFound();
    }
}

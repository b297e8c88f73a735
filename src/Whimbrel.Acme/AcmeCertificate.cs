using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Acme;

/// <summary>
/// A certificate that is ordered from an ACME authority (RFC 8555), renewed in time, and put into use without a
/// restart: the next handshake has the new one, and open connections stay. If an order fails, the certificate in use
/// stays and the order is repeated later. Several nodes may share one store. Any thread.
/// </summary>
/// <remarks>
/// <see cref="StartAsync"/> takes the certificate of the store and begins to work in the background. Give <see
/// cref="Tls"/> to a server of this library, or <see cref="ForSslStream"/> to Kestrel. AcmeCertificate.Renewal.cs has
/// the orders.
/// </remarks>
public sealed partial class AcmeCertificate : IAsyncDisposable
{
    private const int MostReads = 16;
    private const string Page = "automatic-certificates.md";

    private readonly AcmeOptions _options;
    private readonly AcmeRecords _records;
    private readonly AcmeTransport _transport;
    private readonly AcmeTickets? _tickets;
    private readonly CancellationTokenSource _stop = new();
    private readonly TaskCompletionSource _first = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private HttpServer? _responder;
    private Task? _working;
    private IssuedCertificate? _selfSigned;
    private volatile IssuedCertificate? _current;
    private volatile KnownChallenge? _challenge;
    private int _reads; // of the store for challenges, at the moment
    private int _isMissed; // 1 after the first handshake without a start
    private int _asked; // challenges that the authority has requested here

    /// <summary>Creates it. Nothing is read or sent before <see cref="StartAsync"/>.</summary>
    /// <param name="options">Options. All mistakes are reported together.</param>
    /// <exception cref="ArgumentException">The options have mistakes.</exception>
    public AcmeCertificate(AcmeOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _options = options;
        _records = new AcmeRecords(options);
        _transport = new AcmeTransport(options);
        _tickets = options.SharesTickets ? new AcmeTickets(_records, _node) : null;
        Tls = new TlsOptions
        {
            SelectCertificate = Select,
            ChallengeCertificate = SelectChallengeAsync,
            TicketKeys = _tickets?.Keys,
        };
    }

    /// <summary>
    /// TLS options of a server with this certificate. For other options of TLS create your own with
    /// <see cref="Select"/> and <see cref="SelectChallengeAsync"/>.
    /// </summary>
    public TlsOptions Tls { get; }

    /// <summary>Certificate in use, without its chain; null until the first one. Not to be disposed.</summary>
    public X509Certificate2? Current => _current?.Leaf;

    /// <summary>Time of the next renewal; null without a certificate.</summary>
    public DateTimeOffset? RenewsAt => _current is { } current ? RenewalOf(current) : null;

    /// <summary>Error of the latest order; null after a successful one. The details are in diagnostic events.</summary>
    public Exception? LastFailure { get; private set; }

    // ------------------------------------------------------------------ life

    /// <summary>
    /// Takes the certificate of the store, starts the responder of <see cref="AcmeOptions.HttpAddress"/>, and begins to
    /// order and renew in the background. Does not wait for an order: see <see cref="WaitAsync"/>.
    /// </summary>
    /// <param name="cancellationToken">Cancels the start.</param>
    /// <exception cref="InvalidOperationException">It was started before.</exception>
    public async Task StartAsync(CancellationToken cancellationToken = default)
    {
        if (_working is not null || _stop.IsCancellationRequested)
            throw new InvalidOperationException("An AcmeCertificate is started once: create another one.");
        _working = Task.CompletedTask;
        if (_options.SelfSignedUntilIssued)
            _selfSigned = IssuedCertificate.SelfSigned(_options.Names, AcmeTime.Now);
        await TakeStoredAsync(cancellationToken).ConfigureAwait(false);
        await LookAtTicketsAsync(cancellationToken).ConfigureAwait(false);
        if (_options.HttpAddress is { } address)
        {
            _responder = AcmeRoutes.Responder(address, this, _options.OnDiagnosticEvent);
            await _responder.StartAsync(cancellationToken).ConfigureAwait(false);
        }

        _working = Task.Run(WorkAsync, CancellationToken.None);
    }

    /// <summary>
    /// Waits for a certificate of the authority. Failed orders are repeated meanwhile and reported as diagnostic
    /// events.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait, and nothing else.</param>
    public Task WaitAsync(CancellationToken cancellationToken = default) => _first.Task.WaitAsync(cancellationToken);

    /// <summary>
    /// Orders a certificate now, whatever the age of the current one and the pause after failures: for a revoked key,
    /// or after a mistake was corrected. Authorities limit the number of orders.
    /// </summary>
    public void RequestRenewal()
    {
        _isForced = true;
        Wake();
    }

    /// <summary>
    /// Stops. An order in progress is cancelled. The certificate stays in use by its servers and is not renewed any
    /// more.
    /// </summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        if (_working is { } working) await working.ConfigureAwait(false);
        if (_responder is { } responder) await responder.DisposeAsync().ConfigureAwait(false);
        _transport.Dispose();
        _first.TrySetException(new ObjectDisposedException(nameof(AcmeCertificate)));
        _ = _first.Task.Exception; // observed, if nothing waits for it
    }

    // ------------------------------------------------------------------ for servers

    /// <summary>
    /// Returns the certificate for a handshake, for <see cref="TlsOptions.SelectCertificate"/>: the current one for
    /// each name. Null before the first one, unless <see cref="AcmeOptions.SelfSignedUntilIssued"/>. Does not block.
    /// </summary>
    /// <param name="name">Requested server name. Not used.</param>
    public TlsCertificate? Select(string? name)
    {
        IssuedCertificate? issued = _current ?? _selfSigned;
        // On the pool, because this is a loop and the handler of events may block.
        if (issued is null && _working is null && Interlocked.Exchange(ref _isMissed, 1) == 0)
            ThreadPool.UnsafeQueueUserWorkItem(static c => c.Report($"A handshake needs the certificate for "
                + $"{c._options.Names[0]}, and there is none: AcmeCertificate.StartAsync was not called.", null), this,
                preferLocal: false);
        return issued?.Tls;
    }

    /// <summary>
    /// Returns the certificate of a TLS-ALPN-01 validation, for <see cref="TlsOptions.ChallengeCertificate"/>; null if
    /// no node of this store has such a challenge.
    /// </summary>
    /// <param name="name">Requested server name.</param>
    public async ValueTask<TlsCertificate?> SelectChallengeAsync(string name)
    {
        if (!IsFor(name)) return null;
        string? text = await ReadChallengeAsync(_records.AlpnOf(name), CancellationToken.None).ConfigureAwait(false);
        if (text is null) return null;
        if (_challenge is { } known && known.Text == text && known.Name == name) return known.Certificate;
        TlsCertificate certificate = IssuedCertificate.ForChallenge(name, text, AcmeTime.Now);
        _challenge = new KnownChallenge(name, text, certificate);
        return certificate;
    }

    /// <summary>
    /// Returns the answer to a challenge of HTTP-01: the body of <c>/.well-known/acme-challenge/{token}</c>. Null (404)
    /// if no node of this store has such a challenge.
    /// </summary>
    /// <param name="token">Last segment of the path, as received.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    public async ValueTask<string?> AnswerAsync(string token, CancellationToken cancellationToken = default) =>
        AcmeRecords.IsToken(token)
            ? await ReadChallengeAsync(_records.TokenOf(token), cancellationToken).ConfigureAwait(false)
            : null;

    /// <summary>
    /// Returns new options of SslStream with the current certificate and its chain, for Kestrel:
    /// <c>https.OnConnection</c> of <c>TlsHandshakeCallbackOptions</c>. Kestrel's <c>ServerCertificateSelector</c>
    /// would send the certificate without its chain.
    /// </summary>
    /// <exception cref="InvalidOperationException">There is no certificate yet. Kestrel ends the handshake.</exception>
    public SslServerAuthenticationOptions ForSslStream() => new()
    {
        ServerCertificateContext = (_current ?? _selfSigned)?.ForSslStream ?? throw new InvalidOperationException(
                $"There is no certificate for {_options.Names[0]} yet: AcmeOptions.SelfSignedUntilIssued creates one."),
    };

    /// <summary>
    /// Reads an answer, on the pool: the caller may be a loop. At most 16 at a time, because strangers can ask for
    /// tokens.
    /// </summary>
    private async ValueTask<string?> ReadChallengeAsync(string record, CancellationToken stop)
    {
        if (Interlocked.Increment(ref _reads) > MostReads)
        {
            Interlocked.Decrement(ref _reads);
            return null;
        }

        try
        {
            byte[]? answer =
                await Task.Run(async () => await _records.ReadAsync(record, stop), stop).ConfigureAwait(false);
            if (answer is null) return null;
            Interlocked.Increment(ref _asked);
            return Encoding.ASCII.GetString(answer);
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            Report($"The challenge {record} cannot be read from the store: {e.Message.TrimEnd('.')}.", e);
            return null;
        }
        finally
        {
            Interlocked.Decrement(ref _reads);
        }
    }

    /// <summary>Returns whether the certificate is for this name.</summary>
    internal bool IsFor(string name) => _options.Names.Contains(name, StringComparer.OrdinalIgnoreCase);

    private void Report(string message, Exception? exception)
    {
        DiagnosticEvent notice = new(DiagnosticEventKind.Certificate, message, Page, exception);
        try
        {
            if (_options.OnDiagnosticEvent is { } handler) handler(notice);
            else Console.Error.WriteLine($"Whimbrel: {notice.Message} {notice.Help}");
        }
        catch (Exception)
        {
            // A callback that throws, or a closed standard error, must not end the renewals.
        }
    }

    private sealed record KnownChallenge(string Name, string Text, TlsCertificate Certificate);
}

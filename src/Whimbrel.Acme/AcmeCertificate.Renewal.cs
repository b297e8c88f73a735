using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// The background work of one node: look into the store, renew in time, repeat after failures. One task; the state of a
/// step is in the store, so that nodes and restarts share it.
/// </summary>
public sealed partial class AcmeCertificate
{
    private const int FailuresAcrossRestarts = 3;
    private static readonly TimeSpan s_waitForOther = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_leastAdvice = TimeSpan.FromMinutes(1);
    private static readonly TimeSpan s_usualAdvice = TimeSpan.FromHours(6);
    private static readonly TimeSpan s_mostAdvice = TimeSpan.FromDays(1);

    private readonly string _node = Guid.NewGuid().ToString("n");
    private readonly SemaphoreSlim _wake = new(0, 1);
    private volatile bool _isForced;
    private int _failures;
    private DateTimeOffset _pauseUntil;
    private byte[]? _unsaved; // an issued certificate that the store has not taken
    private byte[] _lookedAt = []; // what the store had at the last look
    private (X509Certificate2 Of, DateTimeOffset Start, DateTimeOffset End)? _advice; // of the authority
    private DateTimeOffset _nextAdvice;
    private string? _ticketFailure; // the last one that was reported

    private void Wake()
    {
        try
        {
            _wake.Release();
        }
        catch (SemaphoreFullException)
        {
            // It is awake already.
        }
    }

    private async Task WorkAsync()
    {
        CancellationToken stop = _stop.Token;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                TimeSpan wait = await StepAsync(stop).ConfigureAwait(false);
                wait = AcmeTime.Within(wait, TimeSpan.Zero, _options.LookEvery);
                await _wake.WaitAsync(wait, stop).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
        }
    }

    /// <summary>Does what is due. Returns the time until the next step, at most.</summary>
    private async Task<TimeSpan> StepAsync(CancellationToken stop)
    {
        try
        {
            await TakeStoredAsync(stop).ConfigureAwait(false);
            await LookAtTicketsAsync(stop).ConfigureAwait(false);
            await AskForAdviceAsync(stop).ConfigureAwait(false);
            if (Due() is var due && due > TimeSpan.Zero) return due;
            FailureRecordJson? failure = await _records.ReadFailureAsync(stop).ConfigureAwait(false);
            if (!_isForced && PauseOf(failure) is var pause && pause > TimeSpan.Zero) return pause;
            await using AcmeLease? lease =
                await AcmeLease.TryTakeAsync(_records, _node, _options.OrderTimeout, stop).ConfigureAwait(false);
            if (lease is null) return s_waitForOther;
            await TakeStoredAsync(stop).ConfigureAwait(false); // of the node that had the lease before
            if (Due() > TimeSpan.Zero) return Due();
            await OrderAsync(failure, lease.Stop, stop).ConfigureAwait(false);
            return TimeSpan.Zero;
        }
        catch (Exception e) when (!stop.IsCancellationRequested)
        {
            return Failed(e);
        }
    }

    private TimeSpan Due()
    {
        if (_isForced || _unsaved is not null || _current is not { } current || !_options.Names.All(current.Covers))
            return TimeSpan.Zero;
        return RenewalOf(current) - AcmeTime.Now;
    }

    private DateTimeOffset RenewalOf(IssuedCertificate current) =>
        _advice is var (certificate, start, end) && ReferenceEquals(certificate, current.Leaf)
            ? AcmeTime.InWindow(start, end, current.Share)
            : AcmeTime.RenewalOf(current.From, current.To, current.Share);

    /// <summary>
    /// Returns the rest of the pause after failures, of this node or of others. After fewer than three a restart tries
    /// again at once, because a mistake may have been corrected.
    /// </summary>
    private TimeSpan PauseOf(FailureRecordJson? stored)
    {
        DateTimeOffset until = _pauseUntil;
        if (stored is { Count: >= FailuresAcrossRestarts } && stored.Next > until
            && stored.Next < AcmeTime.Now + AcmeTime.MostPause(_options.RetryAtMost))
            until = stored.Next;
        return until - AcmeTime.Now;
    }

    // ------------------------------------------------------------------ the store

    /// <summary>Puts the stored certificate into use if it is another one and can be used.</summary>
    private async Task TakeStoredAsync(CancellationToken stop)
    {
        byte[]? pem = await _records.ReadAsync(_records.Certificate, stop).ConfigureAwait(false);
        if (pem is null || pem.AsSpan().SequenceEqual(_lookedAt)) return;
        _lookedAt = pem;
        try
        {
            Use(IssuedCertificate.FromPem(Encoding.ASCII.GetString(pem)));
        }
        catch (Exception e) when (e is CryptographicException or ArgumentException)
        {
            Report($"The certificate {_records.Certificate} of the store cannot be used: {e.Message.TrimEnd('.')}. "
                + $"{InUse()}", e);
        }
    }

    /// <summary>Takes the secret of session tickets. A failure costs resumptions only, and no certificate.</summary>
    private async Task LookAtTicketsAsync(CancellationToken stop)
    {
        if (_tickets is null) return;
        try
        {
            await _tickets.LookAsync(AcmeTime.Now, stop).ConfigureAwait(false);
            _ticketFailure = null;
        }
        catch (Exception e) when (!stop.IsCancellationRequested)
        {
            if (_ticketFailure == e.Message) return;
            _ticketFailure = e.Message;
            Report($"The secret of session tickets {_records.Tickets} of the store cannot be used: "
                + $"{e.Message.TrimEnd('.')}. This node keeps its keys, and clients that resume at another node make "
                + "full handshakes.", e);
        }
    }

    private void Use(IssuedCertificate issued)
    {
        if (issued.To <= AcmeTime.Now || !_options.Names.Any(issued.Covers)) return;
        if (issued.Leaf.Equals(_current?.Leaf)) return;
        // A store that was reset to an old backup does not replace a better certificate.
        if (_current is { } current && current.From > issued.From && _options.Names.All(current.Covers)) return;
        _current = issued;
        _nextAdvice = default;
        _failures = 0;
        _pauseUntil = default;
        LastFailure = null;
        _first.TrySetResult();
        try
        {
            _options.OnCertificate?.Invoke(issued.Leaf);
        }
        catch (Exception e)
        {
            Report($"OnCertificate threw {e.GetType().Name}: {e.Message.TrimEnd('.')}. The certificate is in use.", e);
        }
    }

    // ------------------------------------------------------------------ orders

    private async Task OrderAsync(FailureRecordJson? failure, CancellationToken limited, CancellationToken stop)
    {
        int asked = Volatile.Read(ref _asked);
        try
        {
            await OrderAsync(limited).ConfigureAwait(false);
        }
        catch (Exception e) when (!stop.IsCancellationRequested)
        {
            bool wasAsked = Volatile.Read(ref _asked) > asked;
            Exception cause = e is OperationCanceledException
                ? new AcmeException($"The order was not finished within {_options.OrderTimeout}, or the lease in the "
                    + $"store was lost to another node.", e)
                : e;
            _failures = Math.Max(_failures, failure?.Count ?? 0) + 1;
            LastFailure = cause;
            Pause((cause as AcmeException)?.RetryAfter);
            await RecordFailureAsync(cause, stop).ConfigureAwait(false);
            Report($"{NoCertificate(cause)}{HintAt(cause, wasAsked)} {InUse()} {NextAttempt()}", cause);
            return;
        }

        await _records.DeleteFailureAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Records the pause for other nodes and restarts. This node keeps it in memory as well.</summary>
    private async Task RecordFailureAsync(Exception cause, CancellationToken stop)
    {
        try
        {
            await _records.WriteFailureAsync(
                new FailureRecordJson(_failures, _pauseUntil, _node, cause.Message), stop).ConfigureAwait(false);
        }
        catch (Exception) when (!stop.IsCancellationRequested)
        {
            // A full disk is often the failure itself.
        }
    }

    private async Task OrderAsync(CancellationToken stop)
    {
        if (_unsaved is { } unsaved)
        {
            await SaveAsync(unsaved, stop).ConfigureAwait(false);
            return;
        }

        using ECDsa key = await NextKeyAsync(stop).ConfigureAwait(false);
        AcmeClient client = await OpenAccountAsync(stop).ConfigureAwait(false);
        using AccountKey accountKey = client.Key;
        DirectoryJson directory = await client.DirectoryAsync(stop).ConfigureAwait(false);
        string? replaces = directory.RenewalInfo is not null && _current is { } current
            ? IssuedCertificate.RenewalIdOf(current.Leaf)
            : null;
        AcmeOrder order = new(client, _options, _records, key);
        string chain;
        try
        {
            chain = await order.RunAsync(replaces, stop).ConfigureAwait(false);
        }
        catch (AcmeException e) when (e.Problem == "urn:ietf:params:acme:error:accountDoesNotExist")
        {
            // The authority has forgotten the account: the same key gets a new one.
            await RegisterAsync(client, stop).ConfigureAwait(false);
            chain = await order.RunAsync(replaces, stop).ConfigureAwait(false);
        }

        _unsaved = Encoding.ASCII.GetBytes($"{chain.Trim()}\n{key.ExportPkcs8PrivateKeyPem()}\n");
        await SaveAsync(_unsaved, stop).ConfigureAwait(false);
        await AskForAdviceAsync(stop).ConfigureAwait(false);
        if (_current is { } used && RenewalOf(used) <= AcmeTime.Now)
            throw new AcmeException("The new certificate is due for renewal already: the authority issues for too "
                + "short a time, or its renewalInfo is wrong.");
    }

    /// <summary>
    /// Stores a new certificate, then uses it: so all nodes have the same one. If the store fails, the next attempt
    /// stores it instead of ordering another. Only a node without any certificate uses it before.
    /// </summary>
    private async Task SaveAsync(byte[] pem, CancellationToken stop)
    {
        IssuedCertificate issued = IssuedCertificate.FromPem(Encoding.ASCII.GetString(pem));
        try
        {
            await _records.WriteAsync(_records.Certificate, pem, stop).ConfigureAwait(false);
        }
        catch (Exception) when (_current is null || _current.To <= AcmeTime.Now)
        {
            Use(issued);
            throw;
        }

        _unsaved = null;
        _isForced = false;
        _lookedAt = pem;
        Use(issued);
        await _records.DeleteAsync(_records.NextKey, stop).ConfigureAwait(false);
    }

    /// <summary>
    /// Returns the key of the next certificate, and stores it: a store that is full or read-only fails now, before
    /// anything is ordered.
    /// </summary>
    private async Task<ECDsa> NextKeyAsync(CancellationToken stop)
    {
        ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        byte[] pem = Encoding.ASCII.GetBytes(key.ExportPkcs8PrivateKeyPem());
        await _records.WriteAsync(_records.NextKey, pem, stop).ConfigureAwait(false);
        return key;
    }

    private async Task<AcmeClient> OpenAccountAsync(CancellationToken stop)
    {
        AccountRecordJson account = await _records.ReadAccountAsync(stop).ConfigureAwait(false);
        AccountKey key = account.Key is { } pem ? AccountKey.FromPem(pem) : AccountKey.Create();
        AcmeClient client = new(_transport, _options, key, account.Key is null ? null : account.Url);
        if (account.Key is null)
            await _records.WriteAccountAsync(new AccountRecordJson(key.ToPem(), null), stop).ConfigureAwait(false);
        if (client.Account is null) await RegisterAsync(client, stop).ConfigureAwait(false);
        return client;
    }

    private async Task RegisterAsync(AcmeClient client, CancellationToken stop)
    {
        await client.RegisterAsync(stop).ConfigureAwait(false);
        await _records.WriteAccountAsync(new AccountRecordJson(client.Key.ToPem(), client.Account), stop)
            .ConfigureAwait(false);
    }

    // ------------------------------------------------------------------ advice of the authority (RFC 9773)

    /// <summary>
    /// Asks when the certificate should be renewed, if the directory has renewalInfo. An error changes nothing: the
    /// renewal is then at two thirds of the lifetime.
    /// </summary>
    private async Task AskForAdviceAsync(CancellationToken stop)
    {
        if (_current is not { } current || AcmeTime.Now < _nextAdvice) return;
        _nextAdvice = AcmeTime.Now + s_usualAdvice;
        if (IssuedCertificate.RenewalIdOf(current.Leaf) is not { } id) return;
        try
        {
            DirectoryJson directory =
                await AcmeClient.ReadDirectoryAsync(_transport, _options, stop).ConfigureAwait(false);
            if (directory.RenewalInfo is not { } url) return;
            AcmeReply reply = await _transport.SendAsync(HttpMethod.Get, $"{url.TrimEnd('/')}/{id}", null, stop)
                .ConfigureAwait(false);
            AcmeClient.ThrowIfFailed(reply);
            TimeSpan next = AcmeTime.Within(reply.RetryAfter ?? s_usualAdvice, s_leastAdvice, s_mostAdvice);
            _nextAdvice = AcmeTime.Now + next;
            if (AcmeClient.Read(reply, AcmeJson.Default.RenewalInfoJson) is
                { SuggestedWindow: { Start: { } start, End: { } end } } && end > start)
                _advice = (current.Leaf, start, end);
        }
        catch (AcmeException)
        {
            // The advice is optional: an authority that is away is reported when an order fails.
        }
    }

    // ------------------------------------------------------------------ failures

    private TimeSpan Failed(Exception e)
    {
        _failures++;
        LastFailure = e;
        Pause(null);
        Report($"The store of {_records.Certificate} cannot be used: {e.Message.TrimEnd('.')}. {InUse()} "
            + $"{NextAttempt()}", e);
        return _pauseUntil - AcmeTime.Now;
    }

    private void Pause(TimeSpan? asked)
    {
        _isForced = false;
        _pauseUntil = AcmeTime.Now + AcmeTime.PauseAfter(_failures, _options.RetryAfter, _options.RetryAtMost, asked,
            Random.Shared.NextDouble());
    }

    private string NoCertificate(Exception e) =>
        $"No new certificate for {string.Join(", ", _options.Names)}: {e.Message.TrimEnd('.')}.";

    private string HintAt(Exception cause, bool wasAsked)
    {
        if (wasAsked || !cause.Message.Contains("could not validate", StringComparison.Ordinal)) return "";
        return _options.Challenge == AcmeChallenge.Http01
            ? " No request for the challenge has reached this process: port 80 of each name must lead to a server with "
                + "AddAcmeChallenges, or to AcmeOptions.HttpAddress."
            : " No validation has reached this process: port 443 of each name must lead to a server with "
                + "AcmeCertificate.Tls, without a proxy that ends TLS.";
    }

    private string InUse() => _current is { } current
        ? $"The certificate that expires {current.To:yyyy-MM-dd HH:mm} UTC stays in use."
        : _selfSigned is not null ? "The self-signed certificate stays in use."
        : "There is none yet, so handshakes fail.";

    private string NextAttempt() => "The next attempt is at "
        + $"{_pauseUntil.UtcDateTime.ToString("yyyy-MM-dd HH:mm:ss", CultureInfo.InvariantCulture)} UTC.";
}

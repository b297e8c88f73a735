using System.Buffers.Text;
using System.Security.Cryptography;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// One order: proofs of control, the certificate request, and the download (RFC 8555, 7.4). Runs once. The caller holds
/// the lease of the store and sets the time limit.
/// </summary>
internal sealed class AcmeOrder(AcmeClient client, AcmeOptions options, AcmeRecords records, ECDsa key)
{
    private static readonly TimeSpan s_leastWait = TimeSpan.FromMilliseconds(250);
    private static readonly TimeSpan s_mostWait = TimeSpan.FromSeconds(15);

    private readonly List<string> _answers = [];

    /// <summary>Returns the chain of the new certificate as PEM, checked.</summary>
    /// <param name="replaces">Renewal identifier of the certificate that it replaces, or null.</param>
    /// <param name="stop">Cancels the order.</param>
    internal async Task<string> RunAsync(string? replaces, CancellationToken stop)
    {
        (OrderJson order, string url) = await PlaceAsync(replaces, stop).ConfigureAwait(false);
        try
        {
            await ProveAsync(order.Authorizations ?? [], stop).ConfigureAwait(false);
        }
        finally
        {
            await RemoveAnswersAsync().ConfigureAwait(false);
        }

        order = await WaitForOrderAsync(url, "ready", stop).ConfigureAwait(false);
        if (order.Status == "ready")
        {
            FinalizeJson request = new(Base64Url.EncodeToString(IssuedCertificate.RequestFor(options.Names, key)));
            await client.PostAsync(order.Finalize, AcmeJson.Write(request, AcmeJson.Default.FinalizeJson), stop)
                .ConfigureAwait(false);
            order = await WaitForOrderAsync(url, "valid", stop).ConfigureAwait(false);
        }

        AcmeReply reply = await client.PostAsync(order.Certificate, default, stop).ConfigureAwait(false);
        string chain = Encoding.UTF8.GetString(reply.Body);
        if (IssuedCertificate.WrongWith(chain, key, options.Names, AcmeTime.Now) is { } wrong)
            throw new AcmeException($"The certificate from {reply.Request} cannot be used: {wrong}.");
        return chain;
    }

    private async Task<(OrderJson Order, string Url)> PlaceAsync(string? replaces, CancellationToken stop)
    {
        DirectoryJson directory = await client.DirectoryAsync(stop).ConfigureAwait(false);
        OrderRequestJson request = new([.. options.Names.Select(static n => new IdentifierJson("dns", n))], replaces);
        AcmeReply reply;
        try
        {
            reply = await PlaceAsync(directory, request, stop).ConfigureAwait(false);
        }
        catch (AcmeException e) when (replaces is not null
            && e.Problem is "urn:ietf:params:acme:error:alreadyReplaced" or "urn:ietf:params:acme:error:malformed")
        {
            // Another client has renewed it, or the authority does not know the certificate any more.
            reply = await PlaceAsync(directory, request with { Replaces = null }, stop).ConfigureAwait(false);
        }

        string url = reply.Location
            ?? throw new AcmeException($"{reply.Request} created an order and did not give its URL.");
        return (AcmeClient.Read(reply, AcmeJson.Default.OrderJson), url);
    }

    private Task<AcmeReply> PlaceAsync(DirectoryJson directory, OrderRequestJson request, CancellationToken stop) =>
        client.PostAsync(directory.NewOrder, AcmeJson.Write(request, AcmeJson.Default.OrderRequestJson), stop);

    // ------------------------------------------------------------------ proofs

    /// <summary>Answers all challenges, and waits until each name is validated.</summary>
    private async Task ProveAsync(string[] authorizations, CancellationToken stop)
    {
        List<(string Url, string Challenge)> pending = [];
        foreach (string url in authorizations)
        {
            (AuthorizationJson authorization, _) =
                await client.GetAsync(url, AcmeJson.Default.AuthorizationJson, stop).ConfigureAwait(false);
            if (authorization.Status == "valid") continue; // of an earlier order
            ChallengeJson challenge = ChallengeOf(authorization, url);
            await AnswerAsync(authorization.Identifier!.Value!, challenge, stop).ConfigureAwait(false);
            pending.Add((url, challenge.Url!));
        }

        foreach ((_, string challenge) in pending)
            await client.PostAsync(challenge, "{}"u8.ToArray(), stop).ConfigureAwait(false);
        foreach ((string url, _) in pending) await WaitForProofAsync(url, stop).ConfigureAwait(false);
    }

    private string Kind => options.Challenge == AcmeChallenge.Http01 ? "http-01" : "tls-alpn-01";

    private ChallengeJson ChallengeOf(AuthorizationJson authorization, string url)
    {
        string name = authorization.Identifier?.Value ?? "";
        if (authorization.Status != "pending")
            throw new AcmeException($"The authorization {url} of '{name}' is "
                + $"{authorization.Status ?? "without a status"}: {ErrorsOf(authorization)}");
        if (!options.Names.Contains(name, StringComparer.OrdinalIgnoreCase))
            throw new AcmeException($"{url} asks for a proof of '{name}', which was not ordered.");
        ChallengeJson challenge = authorization.Challenges?.FirstOrDefault(c => c.Type == Kind)
            ?? throw new AcmeException($"The authority offers no {Kind} for {name}, only "
                + $"{string.Join(", ", authorization.Challenges?.Select(static c => c.Type) ?? [])}: set "
                + $"AcmeOptions.Challenge to another one.");
        return AcmeRecords.IsToken(challenge.Token) && challenge.Url is not null
            ? challenge
            : throw new AcmeException($"The challenge of {url} has the token '{challenge.Token}', which is no token of "
                + $"RFC 8555, or no URL.");
    }

    private async Task AnswerAsync(string name, ChallengeJson challenge, CancellationToken stop)
    {
        string record = options.Challenge == AcmeChallenge.Http01
            ? records.TokenOf(challenge.Token!)
            : records.AlpnOf(name);
        _answers.Add(record);
        await records.WriteAsync(record, Encoding.ASCII.GetBytes(client.Key.AuthorizationOf(challenge.Token!)), stop)
            .ConfigureAwait(false);
    }

    /// <summary>
    /// Removes the answers, also after a failure. What cannot be removed is overwritten by later orders.
    /// </summary>
    private async Task RemoveAnswersAsync()
    {
        foreach (string answer in _answers)
        {
            try
            {
                await records.DeleteAsync(answer, CancellationToken.None).ConfigureAwait(false);
            }
            catch (Exception)
            {
                // The store fails: the order itself has reported that, or the next one does.
            }
        }
    }

    private async Task WaitForProofAsync(string url, CancellationToken stop)
    {
        for (TimeSpan wait = s_leastWait; ; wait = Longer(wait))
        {
            (AuthorizationJson authorization, AcmeReply reply) =
                await client.GetAsync(url, AcmeJson.Default.AuthorizationJson, stop).ConfigureAwait(false);
            if (authorization.Status == "valid") return;
            if (authorization.Status is not ("pending" or "processing"))
                throw new AcmeException($"The authority could not validate {authorization.Identifier?.Value} by "
                    + $"{Kind}: {ErrorsOf(authorization)}");
            await WaitAsync(wait, reply, stop).ConfigureAwait(false);
        }
    }

    private static string ErrorsOf(AuthorizationJson authorization)
    {
        string[] errors = [.. (authorization.Challenges ?? []).Where(static c => c.Error is not null)
            .Select(static c => AcmeClient.TextOf(c.Error!))];
        return errors.Length > 0 ? string.Join(' ', errors) : "it gives no reason.";
    }

    // ------------------------------------------------------------------ the order

    /// <summary>Waits until the order has this status, or one that comes after it.</summary>
    private async Task<OrderJson> WaitForOrderAsync(string url, string wanted, CancellationToken stop)
    {
        for (TimeSpan wait = s_leastWait; ; wait = Longer(wait))
        {
            (OrderJson order, AcmeReply reply) =
                await client.GetAsync(url, AcmeJson.Default.OrderJson, stop).ConfigureAwait(false);
            if (order.Status == wanted || order.Status == "valid") return order;
            if (order.Status is not ("pending" or "ready" or "processing"))
                throw new AcmeException($"The order {url} is {order.Status ?? "without a status"}: "
                    + $"{(order.Error is { } error ? AcmeClient.TextOf(error) : "the authority gives no reason.")}");
            await WaitAsync(wait, reply, stop).ConfigureAwait(false);
        }
    }

    private static Task WaitAsync(TimeSpan wait, AcmeReply reply, CancellationToken stop) =>
        Task.Delay(AcmeTime.Within(reply.RetryAfter ?? wait, s_leastWait, s_mostWait), stop);

    private static TimeSpan Longer(TimeSpan wait) => AcmeTime.Less(wait * 1.5, s_mostWait);
}

using System.Collections.Concurrent;
using Whimbrel.Http;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat;

/// <summary>HTTP of a client of the original API: records requests as they are sent, parses received bytes, and reports
/// responses in order.</summary>
/// <remarks>
/// <list type="number">
/// <item>A response is reported by its header, then complete. It is cleared when that callback has returned, unless
/// <see cref="TakeResponse"/> was called. Interim responses (1xx) are not reported.</item>
/// <item>A response that breaks a rule or a limit, or data without a request, is reported as an error and ends the
/// connection.</item>
/// <item>A response without a length ends with the connection. Nothing is read after one that ends the
/// connection.</item>
/// </list>
/// Receives on one thread at a time. Requests are recorded on any thread, before their bytes are sent.
/// </remarks>
internal sealed class HttpAsking(IHttpAsking client) : HttpIntake
{
    /// <summary>Most requests without an answer.</summary>
    internal const int MostOpen = 100_000;

    private readonly ConcurrentQueue<Asked> _asked = new();
    private HttpMessageReader _reader = new(HttpLimits.OfClients);
    private string? _host;
    private bool _isExpecting;
    private bool _isLast;

    [Flags]
    private enum Asked
    {
        Usual = 0,
        Head = 1,
        Last = 2,
    }

    internal HttpRequest Request { get; set; } = new();

    internal HttpResponse Response { get; set; } = new();

    /// <summary>Records a request that is about to be sent. False if too many wait for their answers.</summary>
    /// <param name="request">Request to send.</param>
    /// <param name="address">Address, as given to the client.</param>
    /// <param name="port">Port of the server.</param>
    /// <param name="usual">Default port, which Host leaves out.</param>
    internal bool Report(HttpRequest request, string address, int port, int usual)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (request.IsEmpty || _asked.Count >= MostOpen) return false;
        // Created once, because a client has one address for all its requests.
        string host = _host ??= HostText.Of(address, port, usual);
        request.Message.AddFirst("Host", host);
        _asked.Enqueue((request.Message.FirstBytes.SequenceEqual("HEAD"u8) ? Asked.Head : Asked.Usual)
            | (request.Message.Lists("Connection"u8, "close"u8) ? Asked.Last : Asked.Usual));
        return true;
    }

    /// <summary>Passes the response that is being reported to the caller.</summary>
    internal HttpResponse TakeResponse()
    {
        HttpResponse taken = Response;
        Response = new HttpResponse();
        return taken;
    }

    /// <summary>Called when a connection begins.</summary>
    internal void Begin()
    {
        _asked.Clear();
        Restart();
        _reader = new HttpMessageReader(HttpLimits.OfClients);
        _isExpecting = _isLast = false;
        Response.Clear();
    }

    protected override bool IsUpgraded => client.IsUpgraded;

    protected override void TellUpgraded(byte[] buffer) => client.TellUpgraded(buffer, 0, buffer.Length);

    /// <summary>Called when the connection has ended, which ends a response without a length.</summary>
    internal void Ended()
    {
        if (!IsOver)
        {
            switch (_reader.Finish())
            {
                case HttpMessagePart.Done:
                    TellWhole();
                    break;
                case HttpMessagePart.Broken:
                    Fail();
                    break;
            }
        }

        End();
        _asked.Clear();
    }

    protected override int Read(ReadOnlySpan<byte> bytes)
    {
        int at = 0;
        while (!IsOver && !IsUpgraded)
        {
            if (!_isExpecting && at < bytes.Length && _asked.TryDequeue(out Asked asked))
            {
                _reader.ExpectAnswer(asked.HasFlag(Asked.Head));
                _isLast = asked.HasFlag(Asked.Last);
                _isExpecting = true;
            }

            HttpMessagePart part = _reader.Read(bytes[at..], out int taken, out ReadOnlySpan<byte> piece);
            at += taken;
            switch (part)
            {
                case HttpMessagePart.NeedMore:
                    return at;
                case HttpMessagePart.Interim:
                    break;
                case HttpMessagePart.Head:
                    Response.Take(_reader);
                    client.TellHeader(Response);
                    break;
                case HttpMessagePart.Data:
                    Response.Message.Take(piece);
                    break;
                case HttpMessagePart.Done:
                    TellWhole();
                    break;
                case HttpMessagePart.Switched:
                    Switch();
                    return at;
                default:
                    Fail();
                    IsOver = true;
                    client.End();
                    break;
            }
        }

        return at;
    }

    private void TellWhole()
    {
        Response.Message.EndTaken();
        _isExpecting = false;
        // Before the callback, so that a request made in it uses a connection that lives.
        IsOver = _isLast || !_reader.IsPersistent;
        HttpResponse told = Response;
        client.TellResponse(told);
        if (ReferenceEquals(told, Response)) told.Clear();
        if (IsOver) client.End();
        else client.Settle();
    }

    private void Switch()
    {
        Response.Take(_reader);
        client.TellHeader(Response);
        if (IsUpgraded) return;
        client.TellError(Response, "The protocol was switched without being asked for.");
        IsOver = true;
        client.End();
    }

    private void Fail()
    {
        Response.Message.IsBroken = true;
        client.TellError(Response, _reader.Failure!.Message);
        Response.Clear();
    }
}

using System.Collections.Concurrent;
using Whimbrel.Http;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat;

/// <summary>The client's side of HTTP for a client of the old API: requests are noted as they are sent, bytes in, responses told in their order.</summary>
/// <remarks>
/// <list type="number">
/// <item>A response is told by its header, then whole. It is cleared when that callback has returned, unless somebody has taken it
/// (<see cref="TakeResponse"/>). What a server says on the way (1xx) is not told.</item>
/// <item>A response that breaks a rule or a limit, and bytes that nobody asked for, are told as an error, and end the connection.</item>
/// <item>A response without a length ends with the connection. Behind one that ends the connection nothing is read.</item>
/// </list>
/// Received on one thread at a time; requests are noted on any thread, before their bytes are given on.
/// </remarks>
internal sealed class HttpAsking(IHttpAsking client) : HttpIntake
{
    /// <summary>Requests without an answer.</summary>
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

    /// <summary>A request is about to be sent. False: too many wait for their answers.</summary>
    /// <param name="request">The request.</param>
    /// <param name="address">Where it goes, as the client was given it.</param>
    /// <param name="port">Its port.</param>
    /// <param name="usual">The port that Host leaves out.</param>
    internal bool Report(HttpRequest request, string address, int port, int usual)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (request.IsEmpty || _asked.Count >= MostOpen) return false;
        // Made once: a client has the same address for all its requests.
        string host = _host ??= HostText.Of(address, port, usual);
        request.Message.AddFirst("Host", host);
        _asked.Enqueue((request.Message.FirstBytes.SequenceEqual("HEAD"u8) ? Asked.Head : Asked.Usual) | (request.Message.Lists("Connection"u8, "close"u8) ? Asked.Last : Asked.Usual));
        return true;
    }

    /// <summary>The response that is being told stays with who takes it.</summary>
    internal HttpResponse TakeResponse()
    {
        HttpResponse taken = Response;
        Response = new HttpResponse();
        return taken;
    }

    /// <summary>A connection begins.</summary>
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

    /// <summary>The connection has ended: the end of a response that has no other.</summary>
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
        // Before it is told: who asks again in that callback asks on a connection that lives.
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

using System.Diagnostics.CodeAnalysis;
using NetCoreServer;
using Whimbrel.Http;
using HttpProtocolException = Whimbrel.Http.HttpProtocolException;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat;

/// <summary>
/// HTTP of a session of the original API: parses received bytes and reports requests one after the other. Answers go
/// through the session and are recorded here.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A request is reported by its header, then complete: as cached, if it is a GET for an entry of the session's
/// cache, otherwise as received. It is cleared when that callback has returned. Then the next request follows.</item>
/// <item>A request that breaks a rule or a limit is reported as an error, gets one answer with the reason unless it has
/// one, and ends the connection. Nothing is read after it.</item>
/// <item>A request with Connection: close, or HTTP/1.0 without keep-alive, ends the connection when its answer was
/// given, including the body. Nothing is read after it.</item>
/// <item>A header that is incomplete <see cref="HttpOptions.HeadTimeout"/> after its first byte, or a body that is
/// incomplete <see cref="HttpOptions.BodyTimeout"/> after its header, gets 408 and ends the connection. A connection
/// without a request has no limit, as in the original.</item>
/// <item>After an upgrade all bytes are reported unchanged. The request that upgraded, and one that was rejected with a
/// last answer, are reported as complete directly after their header; responses to them are not sent.</item>
/// </list>
/// Receives on one thread at a time. Answers are recorded on any thread.
/// </remarks>
internal sealed class HttpServing(IHttpServed session, HttpOptions limits) : HttpIntake
{
    // A thread has one parser for its connections, so an idle connection has none.
    [ThreadStatic] private static HttpMessageReader? t_spare;
    [ThreadStatic] private static HttpOptions? t_spareLimits;

    private HttpMessageReader? _reader;
    private long _owed;
    private volatile bool _isTelling;
    private bool _isInRequest;
    private volatile bool _endsAfter;
    private Awaited _awaited;
    private volatile bool _isRefused;
    private int _open; // requests whose header was reported and that have no answer

    private enum Awaited
    {
        Nothing,
        Head,
        Body,
    }

    internal HttpRequest Request { get; } = new();

    internal HttpResponse Response { get; } = new();

    // ------------------------------------------------------------------ bytes in

    protected override bool IsUpgraded => session.IsUpgraded;

    protected override void TellUpgraded(byte[] buffer) => session.TellUpgraded(buffer, 0, buffer.Length);

    protected override void Taken()
    {
        Watch(IsOver ? Awaited.Nothing : _isInRequest ? Awaited.Body : HasUnread ? Awaited.Head : Awaited.Nothing);
        if (IsUpgraded)
        {
            // No request follows.
            _reader = null;
            Request.Message.Release();
            Response.Message.Release();
        }
        else if (_reader is { IsInMessage: false, Failure: null } reader && !HasUnread)
        {
            _reader = null;
            if (t_spare is null || !ReferenceEquals(limits, t_spareLimits)) (t_spare, t_spareLimits) = (reader, limits);
        }
    }

    private HttpMessageReader TakeReader()
    {
        bool requireHost = CompatOptions.RequireHost;
        if (!ReferenceEquals(limits, t_spareLimits) || t_spare is not { } spare || spare.RequireHost != requireHost)
            return new HttpMessageReader(limits) { RequireHost = requireHost };
        t_spare = null;
        return spare;
    }

    // Set once per wait: further bytes do not extend the time.
    private void Watch(Awaited awaited)
    {
        if (awaited == _awaited) return;
        _awaited = awaited;
        if (awaited == Awaited.Nothing) HttpDeadlines.Clear(this);
        else HttpDeadlines.Set(this, Environment.TickCount64
            + (long)(awaited == Awaited.Head ? limits.HeadTimeout : limits.BodyTimeout).TotalMilliseconds);
    }

    /// <summary>Called on a pool thread when a header or body was not complete in time.</summary>
    internal void TimedOut()
    {
        if (IsOver) return;
        IsOver = true;
        if (Volatile.Read(ref _open) <= 1) session.Give(Refusal(408, "The request took too long."));
        session.End();
    }

    private static ReadOnlySpan<byte> Refusal(int status, string text) =>
        new HttpResponse().SetBegin(status).SetHeader("Connection", "close")
            .SetHeader("Content-Type", "text/plain; charset=UTF-8").SetBody(text).Cache.AsSpan();

    /// <summary>Called when the connection has ended. An incomplete request is reported.</summary>
    internal void Ended()
    {
        if (!IsOver && _reader is { } reader && reader.Finish() == HttpMessagePart.Broken)
        {
            Request.Message.IsBroken = true;
            session.TellError(Request, reader.Failure!.Message);
        }

        End();
        Watch(Awaited.Nothing);
        Request.Clear();
        Response.Clear();
    }

    protected override int Read(ReadOnlySpan<byte> bytes)
    {
        int at = 0;
        HttpMessageReader reader = _reader ??= TakeReader();
        while (!IsOver && !IsUpgraded)
        {
            HttpMessagePart part = reader.Read(bytes[at..], out int taken, out ReadOnlySpan<byte> piece);
            at += taken;
            switch (part)
            {
                case HttpMessagePart.NeedMore:
                    return at;
                case HttpMessagePart.Head:
                    TakeHead(reader);
                    break;
                case HttpMessagePart.Data:
                    Request.Message.Take(piece);
                    break;
                case HttpMessagePart.Done:
                    TakeWhole();
                    break;
                default:
                    Refuse(reader.Failure!);
                    break;
            }
        }

        return at;
    }

    private void TakeHead(HttpMessageReader reader)
    {
        Request.Take(reader);
        _endsAfter = !reader.IsPersistent;
        _isInRequest = true;
        // A second answer to one request must not count for a later request.
        if (Interlocked.Increment(ref _open) < 1) Volatile.Write(ref _open, 1);
        bool waits = reader.ExpectsContinue;
        _isTelling = true;
        session.TellHeader(Request);
        // The original calls OnReceivedRequest for these requests too, and programs count or log there. No answer can
        // be sent.
        if (IsUpgraded || _isRefused) session.TellRequest(Request);
        _isTelling = false;
        EndIfAnswered();
        if (waits && !IsOver && !IsUpgraded && Volatile.Read(ref _open) > 0)
            session.Give("HTTP/1.1 100 Continue\r\n\r\n"u8);
    }

    private void TakeWhole()
    {
        Request.Message.EndTaken();
        _isInRequest = false;
        // The end that an answer causes waits until the callback that gave the answer has returned.
        _isTelling = true;
        // The URL becomes text only on request, and for a cache that is not empty.
        if (!session.Files.Empty && Request.Message.FirstBytes.SequenceEqual("GET"u8)
            && TryFind(Request.Url, out byte[]? content))
        {
            session.TellCached(Request, content);
            Interlocked.Decrement(ref _open);
        }
        else session.TellRequest(Request);

        _isTelling = false;
        Request.Clear();
        bool isLast = _endsAfter;
        EndIfAnswered();
        if (isLast) IsOver = true;
    }

    private bool TryFind(string url, [NotNullWhen(true)] out byte[]? content)
    {
        int query = url.IndexOf('?', StringComparison.Ordinal);
        string path = query < 0 ? url : url[..query];
        (bool found, content) = session.Files.Find(path);
        if (!found && path.Contains('%', StringComparison.Ordinal))
            (found, content) = session.Files.Find(Uri.UnescapeDataString(path));
        return found && content is not null;
    }

    private void Refuse(HttpProtocolException failure)
    {
        Request.Message.IsBroken = true;
        session.TellError(Request, failure.Message);
        // After an answer, or before a pending one, it would be taken for another answer.
        if (!IsOver && Volatile.Read(ref _open) == (_isInRequest ? 1 : 0))
            session.Give(Refusal(failure.Status, failure.Message));
        Request.Clear();
        IsOver = true;
        session.End();
    }

    // ------------------------------------------------------------------ answers

    /// <summary>Completes an answer that is about to be sent: the last one gets Connection: close.</summary>
    internal void Dress(HttpResponse response)
    {
        if (_endsAfter && response.Status >= 200) response.Message.AddFirst("Connection", "close");
    }

    /// <summary>Records an answer that was given to the session. Interim answers (1xx) change nothing.</summary>
    internal void NoteAnswer(HttpResponse response)
    {
        if (response.Status is >= 100 and < 200) return;
        if (response.Message.Lists("Connection"u8, "close"u8)) _endsAfter = true;
        Volatile.Write(ref _owed, response.Message.MissingBytes);
        Interlocked.Decrement(ref _open);
        if (!_isTelling) EndIfAnswered();
    }

    /// <summary>Records body bytes of an answer that were given to the session.</summary>
    internal void NoteBody(long bytes)
    {
        Interlocked.Add(ref _owed, -bytes);
        if (!_isTelling) EndIfAnswered();
    }

    /// <summary>Records the last answer to a request: nothing after it is read, and no further answer is
    /// sent.</summary>
    internal void NoteRefusal() => _endsAfter = IsOver = _isRefused = true;

    /// <summary>True if a response can be sent: not after an upgrade, where it would be parsed as a frame, and not
    /// after a last answer.</summary>
    internal bool TakesAnswers => !IsUpgraded && !_isRefused;

    /// <summary>True if no request waits for its answer.</summary>
    internal bool IsAnswered => Volatile.Read(ref _open) <= 0;

    private void EndIfAnswered()
    {
        if (!_endsAfter || Volatile.Read(ref _open) > 0 || Volatile.Read(ref _owed) > 0) return;
        IsOver = true;
        session.End();
    }
}

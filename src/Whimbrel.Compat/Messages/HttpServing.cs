using System.Diagnostics.CodeAnalysis;
using NetCoreServer;
using Whimbrel.Http;
using HttpProtocolException = Whimbrel.Http.HttpProtocolException;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat;

/// <summary>
/// The server's side of HTTP for a session of the old API: bytes in, requests told, one behind the other. What is answered goes through the session,
/// and is noted here.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A request is told by its header, then whole: as cached, when it is a GET for something in the session's cache, else as it is. It is
/// cleared when that callback has returned. The next one in the same bytes follows.</item>
/// <item>A request that breaks a rule or a limit is told as an error, gets one answer that says so unless it had one, and ends the connection.
/// Nothing behind it is read.</item>
/// <item>A request that asks for the end of the connection, or comes by HTTP/1.0 without keep-alive, gets it when its answer has been given, the
/// body too. Nothing behind it is read.</item>
/// <item>A header that is not whole <see cref="HttpOptions.HeadTimeout"/> after its first byte, and a body that is not
/// <see cref="HttpOptions.BodyTimeout"/> after its header, get 408 and the end. A connection without a request under way has no limit, as it had none.</item>
/// <item>Once the session is upgraded, all that follows is told to it as it came. The request that upgraded it, and one that was refused with a last answer, are
/// told whole right after their header, and responses to them are not sent.</item>
/// </list>
/// Received on one thread at a time; answers are noted on any thread.
/// </remarks>
internal sealed class HttpServing(IHttpServed session, HttpOptions limits) : HttpIntake
{
    // An idle connection has none: a thread has one for all that it receives for.
    [ThreadStatic] private static HttpMessageReader? t_spare;

    private HttpMessageReader? _reader;
    private long _owed;
    private volatile bool _isTelling;
    private bool _isInRequest;
    private volatile bool _endsAfter;
    private Awaited _awaited;
    private volatile bool _isRefused;
    private int _open; // requests whose header was told, and that have no answer

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
            if (ReferenceEquals(limits, HttpLimits.OfServers)) t_spare ??= reader;
        }
    }

    private HttpMessageReader TakeReader()
    {
        bool requireHost = CompatOptions.RequireHost;
        if (!ReferenceEquals(limits, HttpLimits.OfServers) || t_spare is not { } spare || spare.RequireHost != requireHost) return new HttpMessageReader(limits) { RequireHost = requireHost };
        t_spare = null;
        return spare;
    }

    // Set once for each: further bytes give no further time.
    private void Watch(Awaited awaited)
    {
        if (awaited == _awaited) return;
        _awaited = awaited;
        if (awaited == Awaited.Nothing) HttpDeadlines.Clear(this);
        else HttpDeadlines.Set(this, Environment.TickCount64 + (long)(awaited == Awaited.Head ? limits.HeadTimeout : limits.BodyTimeout).TotalMilliseconds);
    }

    /// <summary>What was begun did not come in time. On a thread of the pool.</summary>
    internal void TimedOut()
    {
        if (IsOver) return;
        IsOver = true;
        if (Volatile.Read(ref _open) <= 1) session.Give(Refusal(408, "The request took too long."));
        session.End();
    }

    private static ReadOnlySpan<byte> Refusal(int status, string text) =>
        new HttpResponse().SetBegin(status).SetHeader("Connection", "close").SetHeader("Content-Type", "text/plain; charset=UTF-8").SetBody(text).Cache.AsSpan();

    /// <summary>The connection has ended. A request that was not finished is told.</summary>
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
        // Who answers twice answers no later request with it.
        if (Interlocked.Increment(ref _open) < 1) Volatile.Write(ref _open, 1);
        bool waits = reader.ExpectsContinue;
        _isTelling = true;
        session.TellHeader(Request);
        // The old library calls OnReceivedRequest for these, too, and programs count or log there. Nothing can be answered any more.
        if (IsUpgraded || _isRefused) session.TellRequest(Request);
        _isTelling = false;
        EndIfAnswered();
        if (waits && !IsOver && !IsUpgraded && Volatile.Read(ref _open) > 0) session.Give("HTTP/1.1 100 Continue\r\n\r\n"u8);
    }

    private void TakeWhole()
    {
        Request.Message.EndTaken();
        _isInRequest = false;
        // The end that an answer brings waits until the callback that gave it has returned.
        _isTelling = true;
        // Its words become text for who asks for them, and for a cache that has something.
        if (!session.Files.Empty && Request.Message.FirstBytes.SequenceEqual("GET"u8) && TryFind(Request.Url, out byte[]? content))
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
        if (!found && path.Contains('%', StringComparison.Ordinal)) (found, content) = session.Files.Find(Uri.UnescapeDataString(path));
        return found && content is not null;
    }

    private void Refuse(HttpProtocolException failure)
    {
        Request.Message.IsBroken = true;
        session.TellError(Request, failure.Message);
        // Behind an answer, or before one that is still to come, it would be taken for another one's.
        if (!IsOver && Volatile.Read(ref _open) == (_isInRequest ? 1 : 0))
            session.Give(Refusal(failure.Status, failure.Message));
        Request.Clear();
        IsOver = true;
        session.End();
    }

    // ------------------------------------------------------------------ answers

    /// <summary>An answer is about to be sent: the last one says so.</summary>
    internal void Dress(HttpResponse response)
    {
        if (_endsAfter && response.Status >= 200) response.Message.AddFirst("Connection", "close");
    }

    /// <summary>An answer was given to the session. One that is not the last (1xx) changes nothing.</summary>
    internal void NoteAnswer(HttpResponse response)
    {
        if (response.Status is >= 100 and < 200) return;
        if (response.Message.Lists("Connection"u8, "close"u8)) _endsAfter = true;
        Volatile.Write(ref _owed, response.Message.MissingBytes);
        Interlocked.Decrement(ref _open);
        if (!_isTelling) EndIfAnswered();
    }

    /// <summary>Bytes of the body of an answer were given to the session.</summary>
    internal void NoteBody(long bytes)
    {
        Interlocked.Add(ref _owed, -bytes);
        if (!_isTelling) EndIfAnswered();
    }

    /// <summary>The request got its last answer: what comes after it is not read, and no further answer is sent.</summary>
    internal void NoteRefusal() => _endsAfter = IsOver = _isRefused = true;

    /// <summary>Whether a response can be sent: not after an upgrade, where its bytes would be read as a frame, and not after a last answer.</summary>
    internal bool TakesAnswers => !IsUpgraded && !_isRefused;

    /// <summary>Whether no request waits for its answer.</summary>
    internal bool IsAnswered => Volatile.Read(ref _open) <= 0;

    private void EndIfAnswered()
    {
        if (!_endsAfter || Volatile.Read(ref _open) > 0 || Volatile.Read(ref _owed) > 0) return;
        IsOver = true;
        session.End();
    }
}

using System.Buffers;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// The answer to a request: whole, from memory (<see cref="Text"/>, <see cref="Bytes"/>, <see cref="Json{T}"/>, <see cref="Empty"/>), or piece by
/// piece (<see cref="WriteAsync"/>, <see cref="Body"/>, <see cref="SendEventAsync"/>). Each request gets one. One thread at a time; any thread.
/// </summary>
public sealed partial class HttpResponse
{
    // Leaves as one message; what is larger goes in pieces, as the peer takes them.
    private const int WholeBytes = 128 * 1024;
    private const int SmallHead = 512;
    private const int HeadRoom = 192; // status line, Date, Connection, framing
    private const int FirstFieldBytes = 256;

    private readonly HttpSession _session;
    private ServerExchange? _exchange; // until it is complete
    private int _status;
    private Progress _progress;
    private bool _isHead;
    private bool _isOld;
    private bool _isPersistent;
    private bool _wantsClose;
    private bool _hasContentType;

    internal HttpResponse(HttpSession session) => _session = session;

    private enum Progress : byte
    {
        /// <summary>Nothing was sent.</summary>
        Open,

        /// <summary>The head was sent, and pieces follow.</summary>
        Writing,

        /// <summary>All of it is known, and leaves in pieces.</summary>
        Ending,

        Done,
    }

    /// <summary>Its status, 100 to 599; 200 unless it is set. Before anything is sent.</summary>
    /// <exception cref="InvalidOperationException">The head was sent.</exception>
    public int Status
    {
        get => _status;
        set
        {
            StatusLines.IndexOf(value);
            if (value < 200) throw new ArgumentOutOfRangeException(nameof(value), value, "An answer has a status from 200 on: SwitchProtocol sends 101.");
            MustBeOpen();
            _status = value;
        }
    }

    /// <summary>Whether its head was sent, or all of it.</summary>
    public bool HasBegun => _progress != Progress.Open;

    /// <summary>The connection is closed behind this answer. Before anything is sent.</summary>
    public void CloseAfter()
    {
        MustBeOpen();
        _wantsClose = true;
    }

    /// <summary>Adds a field. Another one with the same name stays.</summary>
    /// <param name="name">A token; not one that says where the body ends, and not Connection or Date, which follow from the rest.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="ArgumentException">They are not that: with a line end in it, a value could become a field or a second answer.</exception>
    /// <exception cref="InvalidOperationException">The head was sent.</exception>
    public void Add(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        MustBeOpen();
        if (name.Equals("Connection", StringComparison.OrdinalIgnoreCase) || (name.Equals("Date", StringComparison.OrdinalIgnoreCase) && _session.Options.SendDate))
            throw new ArgumentException("Connection and Date follow from the rest: see CloseAfter and HttpOptions.SendDate.", nameof(name));
        if (name.Equals("Content-Type", StringComparison.OrdinalIgnoreCase)) _hasContentType = true;
        int written;
        while (!HttpWriter.TryWriteField(Pieces.Fields.AsSpan(Pieces.FieldBytes), name, value, out written)) GrowFields(written);
        Pieces.FieldBytes += written;
    }

    /// <summary>
    /// Adds the fields of an answer that is passed on, as they came: all but those of its connection (Connection, what that names, Keep-Alive, Trailer, Upgrade and the
    /// like) and what frames the body, and Date, if the server sends its own. The length of the body is taken over as <see cref="BodyLength"/>, also for the answer to HEAD.
    /// </summary>
    /// <param name="head">Of an answer by a client; with another status than this one has, set <see cref="Status"/> first.</param>
    /// <exception cref="InvalidOperationException">The head was sent.</exception>
    public void AddFieldsOf(HttpResponseHead head)
    {
        ArgumentNullException.ThrowIfNull(head);
        MustBeOpen();
        for (int i = 0; i < head.FieldCount; i++)
        {
            HttpField field = head.Head.Reader[i].Field;
            if ((field == HttpField.Date && _session.Options.SendDate) || !HttpForwarding.GoesOn(head.Head, i)) continue;
            ReadOnlySpan<byte> name = head.NameAt(i), value = head.ValueAt(i);
            int length = name.Length + value.Length + 4;
            if (Pieces.Fields is null || Pieces.Fields.Length - Pieces.FieldBytes < length) GrowFields(length);
            HttpWriter.WriteChecked(Pieces.Fields.AsSpan(Pieces.FieldBytes), name, value);
            Pieces.FieldBytes += length;
            if (field == HttpField.ContentType) _hasContentType = true;
        }

        if (CanHaveBody) BodyLength = _isHead ? head.Head.Reader.ContentLength : head.BodyLength;
    }

    /// <summary>Adds Set-Cookie.</summary>
    /// <param name="cookie">What to keep, and how.</param>
    /// <exception cref="InvalidOperationException">No browser would keep it, or it would become another field or cookie: the message says why. Or the head was sent.</exception>
    public void SetCookie(HttpCookie cookie)
    {
        ArgumentNullException.ThrowIfNull(cookie);
        Add("Set-Cookie", cookie.Format());
    }

    /// <summary>Adds what was checked: lines with their ends.</summary>
    internal void AddLines(ReadOnlySpan<byte> lines)
    {
        if (Pieces.Fields is null || Pieces.Fields.Length - Pieces.FieldBytes < lines.Length) GrowFields(lines.Length);
        lines.CopyTo(Pieces.Fields.AsSpan(Pieces.FieldBytes));
        Pieces.FieldBytes += lines.Length;
    }

    // ------------------------------------------------------------------ whole

    /// <summary>Answers with text in UTF-8, as <c>text/plain; charset=utf-8</c> unless a Content-Type was added.</summary>
    /// <param name="text">The body.</param>
    public void Text(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        int most = Encoding.UTF8.GetMaxByteCount(text.Length);
        byte[]? rented = null;
        Span<byte> bytes = most <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(most);
        try
        {
            Bytes(bytes[..Encoding.UTF8.GetBytes(text, bytes)], "text/plain; charset=utf-8"u8);
        }
        finally
        {
            if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        }
    }

    /// <summary>Answers without a body.</summary>
    /// <param name="status">Null: the one that was set, or 204 when none was.</param>
    public void Empty(int? status = null)
    {
        if (status is { } given) Status = given;
        else if (_status == 200 && _progress == Progress.Open) _status = 204;
        Bytes(default, default);
    }

    /// <summary>Answers with a body that lies in memory.</summary>
    /// <param name="body">Copied. The answer to HEAD says how long it would be.</param>
    /// <param name="contentType">Content-Type, unless one was added; empty for none.</param>
    /// <exception cref="InvalidOperationException">There is an answer already, or the status has no body.</exception>
    public void Bytes(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType = default)
    {
        MustBeOpen();
        bool canHave = CanHaveBody;
        if (!canHave && !body.IsEmpty) throw new InvalidOperationException($"An answer with status {_status} has no body.");
        HttpWriter.CheckValue(contentType, nameof(contentType));
        if (_mayDivide && TryDivide(body, contentType)) return;
        if (_mayCompress && canHave && TryCompress(body, contentType)) return;
        bool isPersistent = Decide();
        int room = HeadRoom + Pieces.FieldBytes + contentType.Length;
        byte[]? rented = null;
        Span<byte> head = room <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        HttpFraming framing = canHave ? HttpFraming.Length : HttpFraming.None;
        head = head[..WriteHead(head, framing, body.Length, isPersistent, contentType)];
        if (_isHead || body.Length <= WholeBytes)
        {
            _progress = Progress.Done;
            using (_session.GatherWakes()) _session.Send(head, _isHead ? default : body);
            BodyBytes = _isHead ? 0 : body.Length;
        }
        else
        {
            KeepForLater(head, body);
            BodyBytes = body.Length;
            _progress = Progress.Ending;
        }

        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        _session.AnswerDone();
    }

    /// <summary>Answers with a status and a line of text that says what it means.</summary>
    /// <param name="status">300 to 599, mostly.</param>
    /// <param name="text">What more to say; null for nothing. ASCII or not, it is no field.</param>
    public void Fail(int status, string? text = null)
    {
        Status = status;
        string reason = StatusLines.ReasonOf(status);
        Text(text is null ? $"{status} {reason}\r\n" : $"{status} {reason}: {text}.\r\n");
    }

    /// <summary>
    /// Answers with 101 and gives the connection to another session, with all bytes behind the request. Inside
    /// <see cref="HttpSession.OnRequest"/> or a handler on the loop; what was added as fields is sent, too.
    /// </summary>
    /// <param name="protocol">The value of Upgrade.</param>
    /// <param name="next">A session that has no connection yet.</param>
    /// <exception cref="InvalidOperationException">The request has a body, or did not ask for another protocol.</exception>
    public void SwitchProtocol(string protocol, Session next)
    {
        ArgumentNullException.ThrowIfNull(protocol);
        ArgumentNullException.ThrowIfNull(next);
        MustBeOpen();
        if (!_session.IsAskedToSwitch) throw new InvalidOperationException("The request does not ask for another protocol, or has a body.");
        Add("Upgrade", protocol);
        Span<byte> head = new byte[HeadRoom + Pieces.FieldBytes];
        HttpWriter writer = new(head);
        writer.StatusLine(101);
        writer.CheckedFields("Connection: Upgrade\r\n"u8);
        writer.CheckedFields(Pieces.Fields.AsSpan(0, Pieces.FieldBytes));
        writer.EndHead();
        _session.SwitchTo(next);
        _progress = Progress.Done;
        using (_session.GatherWakes()) _session.Send(head[..writer.Length]);
        _status = 101;
        _session.LeaveForNext();
    }

    // ------------------------------------------------------------------ for the session

    internal bool IsDone => _progress == Progress.Done;

    internal bool IsEnding => _progress == Progress.Ending;

    /// <summary>Bytes of the body that were given so far.</summary>
    internal long BodyBytes { get; private set; }

    /// <summary>No request comes behind it.</summary>
    internal bool Closes { get; private set; }

    internal void Begin(ServerExchange exchange, bool isHead, bool isOld, bool isPersistent)
    {
        _exchange = exchange;
        _isHead = isHead;
        _isOld = isOld;
        _isPersistent = isPersistent;
        _status = 200;
        BodyBytes = 0;
        _progress = Progress.Open;
        _wantsClose = _hasContentType = IsEventStream = Closes = false;
        _mayCompress = _session.MayCompress;
        BeginPieces();
    }

    /// <summary>Its memory goes back.</summary>
    internal void Release()
    {
        ReleasePieces();
        _progress = Progress.Done;
    }

    // ------------------------------------------------------------------ head

    private ref AnswerPieces Pieces => ref (_exchange ?? throw NothingToChange()).Pieces;

    private bool CanHaveBody => _status is not (204 or 304) and >= 200;

    private void MustBeOpen()
    {
        if (_progress != Progress.Open) throw NothingToChange();
    }

    private static InvalidOperationException NothingToChange() => new("The request has its answer, or its head was sent: nothing can be changed any more.");

    private bool Decide(bool isWhole = true)
    {
        bool canGoOn = _session.BeginAnswer(isWhole);
        bool isPersistent = _isPersistent && !_wantsClose && canGoOn;
        Closes = !isPersistent;
        return isPersistent;
    }

    private int WriteHead(Span<byte> room, HttpFraming framing, long length, bool isPersistent, ReadOnlySpan<byte> contentType, ReadOnlySpan<byte> lines = default, ReadOnlySpan<byte> line = default)
    {
        HttpWriter writer = new(room);
        writer.StatusLine(_status);
        if (_session.Options.SendDate) writer.CheckedFields(HttpDate.Line);
        if (Pieces.FieldBytes > 0) writer.CheckedFields(Pieces.Fields.AsSpan(0, Pieces.FieldBytes));
        if (!lines.IsEmpty) writer.CheckedFields(lines);
        if (!line.IsEmpty) writer.CheckedFields(line);
        if (!contentType.IsEmpty && !_hasContentType) writer.Field(HttpField.ContentType, contentType);
        if (!isPersistent) writer.CheckedFields("Connection: close\r\n"u8);
        else if (_isOld) writer.CheckedFields("Connection: keep-alive\r\n"u8);
        if (framing == HttpFraming.Length) writer.ContentLength(length);
        else if (framing == HttpFraming.Chunked) writer.Chunked();
        writer.EndHead();
        System.Diagnostics.Debug.Assert(!writer.IsFull, "the room was counted");
        return writer.Length;
    }

    private void GrowFields(int needed)
    {
        byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(FirstFieldBytes, (Pieces.FieldBytes + needed) * 2));
        if (Pieces.Fields is { } old)
        {
            old.AsSpan(0, Pieces.FieldBytes).CopyTo(larger);
            ArrayPool<byte>.Shared.Return(old);
        }

        Pieces.Fields = larger;
    }
}

using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// State of <see cref="HttpResponse"/>: the responses of an exchange, one after the other. Its members run one at a
/// time, inside of <see cref="ServerExchange.EnterWriter"/>. A completed response is reported to the session when the
/// caller leaves.
/// </summary>
internal sealed partial class ServerAnswer(ServerExchange exchange)
{
    // Largest body sent as one message; larger ones are sent in pieces, as the peer reads.
    private const int WholeBytes = 128 * 1024;
    private const int SmallHead = 512;
    private const int HeadRoom = 192; // status line, Date, Connection, framing
    private const int FirstFieldBytes = 256;
    private const int MostFieldBytes = 128 * 1024;

    private readonly ServerExchange _exchange = exchange;
    private int _status;
    private volatile Progress _progress;
    private volatile bool _isCompleting; // complete, or sent in pieces: the session is notified when the member ends
    private bool _hasFailed; // at its end, after the handler had given all of it
    private bool _isHead;
    private bool _isOld;
    private bool _isPersistent;
    private bool _wantsClose;
    private bool _hasContentType;

    private enum Progress : byte
    {
        /// <summary>No byte was sent.</summary>
        Open,

        /// <summary>The head was sent, and pieces follow.</summary>
        Writing,

        /// <summary>The response is complete, and is sent in pieces.</summary>
        Ending,

        Done,
    }

    internal int Status
    {
        get => _status;
        set
        {
            StatusLines.IndexOf(value);
            if (value < 200)
                throw new ArgumentOutOfRangeException(nameof(value), value,
                    "An answer has a status from 200 on: SwitchProtocol sends 101.");
            MustBeOpen();
            _status = value;
        }
    }

    internal bool HasBegun => _progress != Progress.Open;

    internal void CloseAfter()
    {
        MustBeOpen();
        _wantsClose = true;
    }

    internal void Add(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        MustBeOpen();
        if (name.Equals("Connection", StringComparison.OrdinalIgnoreCase)
            || (name.Equals("Date", StringComparison.OrdinalIgnoreCase) && Session.Options.SendDate))
            throw new ArgumentException(
                "Connection and Date follow from the rest: see CloseAfter and HttpOptions.SendDate.", nameof(name));
        if (name.Equals("Content-Type", StringComparison.OrdinalIgnoreCase)) _hasContentType = true;
        int written;
        while (!HttpWriter.TryWriteField(Pieces.Fields.AsSpan(Pieces.FieldBytes), name, value, out written))
            GrowFields(written);
        Pieces.FieldBytes += written;
    }

    internal void AddFieldsOf(HttpResponseHead head)
    {
        ArgumentNullException.ThrowIfNull(head);
        MustBeOpen();
        for (int i = 0; i < head.FieldCount; i++)
        {
            HttpField field = head.Head.Reader[i].Field;
            if ((field == HttpField.Date && Session.Options.SendDate) || !HttpForwarding.GoesOn(head.Head, i)) continue;
            ReadOnlySpan<byte> name = head.NameAt(i), value = head.ValueAt(i);
            int length = name.Length + value.Length + 4;
            if (Pieces.Fields is null || Pieces.Fields.Length - Pieces.FieldBytes < length) GrowFields(length);
            HttpWriter.WriteChecked(Pieces.Fields.AsSpan(Pieces.FieldBytes), name, value);
            Pieces.FieldBytes += length;
            if (field == HttpField.ContentType) _hasContentType = true;
        }

        if (CanHaveBody) BodyLength = _isHead ? head.Head.Reader.ContentLength : head.BodyLength;
    }

    internal void SetCookie(HttpCookie cookie)
    {
        ArgumentNullException.ThrowIfNull(cookie);
        Add("Set-Cookie", cookie.Format());
    }

    /// <summary>Adds checked field lines, including their line ends.</summary>
    internal void AddLines(ReadOnlySpan<byte> lines)
    {
        if (Pieces.Fields is null || Pieces.Fields.Length - Pieces.FieldBytes < lines.Length) GrowFields(lines.Length);
        lines.CopyTo(Pieces.Fields.AsSpan(Pieces.FieldBytes));
        Pieces.FieldBytes += lines.Length;
    }

    // ------------------------------------------------------------------ whole

    internal void Text(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        using Utf8Text utf8 = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        Bytes(utf8.Bytes, "text/plain; charset=utf-8"u8);
    }

    internal void Empty(int? status = null)
    {
        if (status is { } given) Status = given;
        else if (_status == 200 && _progress == Progress.Open) _status = 204;
        Bytes(default, default);
    }

    internal void Bytes(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType = default)
    {
        MustBeOpen();
        bool canHave = CanHaveBody;
        if (!canHave && !body.IsEmpty)
            throw new InvalidOperationException($"An answer with status {_status} has no body.");
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
            Complete(Progress.Done);
            using (Session.BatchWakeUps()) Session.Send(Outgoing.Pieces(head, _isHead ? default : body));
            BodyBytes = _isHead ? 0 : body.Length;
        }
        else
        {
            KeepForLater(head, body);
            BodyBytes = body.Length;
            Complete(Progress.Ending);
        }

        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
    }

    internal void Fail(int status, string? text = null)
    {
        Status = status;
        string reason = StatusLines.ReasonOf(status);
        Text(text is null ? $"{status} {reason}\r\n" : $"{status} {reason}: {text}.\r\n");
    }

    internal void SwitchProtocol(string protocol, Session next)
    {
        ArgumentNullException.ThrowIfNull(protocol);
        ArgumentNullException.ThrowIfNull(next);
        MustBeOpen();
        if (!Session.IsAskedToSwitch)
            throw new InvalidOperationException("The request does not ask for another protocol, or has a body.");
        Add("Upgrade", protocol);
        Span<byte> head = new byte[HeadRoom + Pieces.FieldBytes];
        HttpWriter writer = new(head);
        writer.StatusLine(101);
        writer.CheckedFields("Connection: Upgrade\r\n"u8);
        writer.CheckedFields(Pieces.Fields.AsSpan(0, Pieces.FieldBytes));
        writer.EndHead();
        Session.SwitchTo(next);
        _progress = Progress.Done;
        using (Session.BatchWakeUps()) Session.Send(head[..writer.Length]);
        _status = 101;
    }

    // ------------------------------------------------------------------ for the session

    internal bool IsDone => _progress == Progress.Done;

    /// <summary>Whether a member that completes the response is running; the session is notified when it
    /// ends.</summary>
    internal bool IsCompleting => _isCompleting;

    /// <summary>Called when a member ends. Returns whether it has completed the response.</summary>
    internal bool TakeCompletion()
    {
        if (!_isCompleting) return false;
        _isCompleting = false;
        return true;
    }

    internal bool IsEnding => _progress == Progress.Ending;

    /// <summary>Whether the response was given completely, and has not failed since.</summary>
    internal bool IsWhole => _progress is Progress.Ending or Progress.Done && !_hasFailed;

    /// <summary>Number of body bytes given so far.</summary>
    internal long BodyBytes { get; private set; }

    /// <summary>Whether the connection is closed after the response.</summary>
    internal bool Closes { get; private set; }

    internal void Begin(bool isHead, bool isOld, bool isPersistent)
    {
        _isHead = isHead;
        _isOld = isOld;
        _isPersistent = isPersistent;
        _status = 200;
        BodyBytes = 0;
        _progress = Progress.Open;
        _isCompleting = _hasFailed = false;
        _wantsClose = _hasContentType = IsEventStream = Closes = false;
        _mayCompress = Session.MayCompress;
        BeginPieces();
    }

    /// <summary>Returns its memory to the pool.</summary>
    internal void Release()
    {
        ReleasePieces();
        _progress = Progress.Done;
    }

    // ------------------------------------------------------------------ head

    private ref AnswerPieces Pieces => ref _exchange.Pieces;

    private HttpSession Session => _exchange.Session;

    private bool CanHaveBody => _status is not (204 or 304) and >= 200;

    // In this order: a session that sees the progress also sees the flag, and waits for the end of the member.
    private void Complete(Progress progress)
    {
        _isCompleting = true;
        _progress = progress;
    }

    internal void MustBeOpen()
    {
        if (_progress != Progress.Open) throw NothingToChange();
    }

    private static InvalidOperationException NothingToChange() =>
        new("The request has its answer, or its head was sent: nothing can be changed any more.");

    private bool Decide(bool isWhole = true)
    {
        bool canGoOn = Session.BeginAnswer(isWhole);
        bool isPersistent = _isPersistent && !_wantsClose && canGoOn;
        Closes = !isPersistent;
        return isPersistent;
    }

    private int WriteHead(Span<byte> room, HttpFraming framing, long length, bool isPersistent,
        ReadOnlySpan<byte> contentType, ReadOnlySpan<byte> lines = default, ReadOnlySpan<byte> line = default)
    {
        HttpWriter writer = new(room);
        writer.StatusLine(_status);
        if (Session.Options.SendDate) writer.CheckedFields(HttpDate.Line);
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
        if (Pieces.FieldBytes + needed > MostFieldBytes)
            throw new InvalidOperationException($"The fields of an answer have up to {MostFieldBytes / 1024} KiB "
                + $"together, and this one would be larger: send less in fields, or send it in the body.");
        byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(FirstFieldBytes, (Pieces.FieldBytes + needed) * 2));
        if (Pieces.Fields is { } old)
        {
            old.AsSpan(0, Pieces.FieldBytes).CopyTo(larger);
            ArrayPool<byte>.Shared.Return(old);
        }

        Pieces.Fields = larger;
    }
}

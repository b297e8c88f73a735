using System.Buffers.Binary;
using System.Runtime.InteropServices;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads frames, as offsets into the given bytes. It has no connection and no clock, keeps no bytes and allocates
/// nothing.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Unconsumed bytes are passed again, followed by new ones, as by <see cref="Session.OnData"/>. The messages do
/// not depend on how the bytes are split: pieces are reported as they arrive, control frames whole, also between
/// fragments.</item>
/// <item>A rule is checked at the first bytes that show it, and lengths before any byte of the payload. After a broken
/// rule no more can be read.</item>
/// <item>A piece stays masked, so that the caller unmasks it in place or while copying (<see cref="Key"/>). Control
/// frames are unmasked in place, and a close frame is checked.</item>
/// <item>The caller checks that text is UTF-8, and that compressed data is complete.</item>
/// </list>
/// </remarks>
[StructLayout(LayoutKind.Auto)]
internal struct WebSocketReader
{
    /// <summary>Longest payload of a control frame.</summary>
    internal const int MostControlBytes = 125;

    /// <summary>Largest number of frames without a payload in one message.</summary>
    internal const int MostEmptyFrames = 128;

    private readonly WebSocketRole _role;
    private readonly bool _mayCompress;
    private readonly long _messageLimit;

    private long _left;
    private long _total;
    private uint _nextKey;
    private int _emptyFrames;
    private bool _isFirst;
    private bool _isInFrame;
    private bool _isLastFrame;
    private bool _isClosed;
    private WebSocketOpcode _message; // Continuation if there is none

    /// <summary>Creates a reader that begins after the handshake.</summary>
    /// <param name="role">Role of this end.</param>
    /// <param name="messageLimit">Largest message in bytes, as received: compressed, if it is.</param>
    /// <param name="mayCompress">Whether permessage-deflate was agreed on.</param>
    internal WebSocketReader(WebSocketRole role, long messageLimit, bool mayCompress = false)
    {
        _role = role;
        _messageLimit = messageLimit;
        _mayCompress = mayCompress;
    }

    /// <summary>Broken rule.</summary>
    internal WebSocketRule Rule { get; private set; }

    /// <summary>Offset of the piece, or of the control frame's payload, in the bytes of the last call.</summary>
    internal int Start { get; private set; }

    /// <summary>Length of the piece or payload. A piece may be empty.</summary>
    internal int Length { get; private set; }

    /// <summary>Key of the piece's first byte; 0 if it is not masked.</summary>
    internal uint Key { get; private set; }

    /// <summary>Opcode of the control frame; Text or Binary for a piece.</summary>
    internal WebSocketOpcode Opcode { get; private set; }

    /// <summary>Whether the piece is the first of its message.</summary>
    internal bool IsFirst { get; private set; }

    /// <summary>Whether the piece is the last of its message.</summary>
    internal bool IsLast { get; private set; }

    /// <summary>Whether the message is compressed.</summary>
    internal bool IsCompressed { get; private set; }

    /// <summary>Number of missing bytes of the frame.</summary>
    internal readonly long Left => _left;

    /// <summary>Whether a message was begun and not completed.</summary>
    internal readonly bool IsInMessage => _message != WebSocketOpcode.Continuation;

    /// <summary>Continues to read.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes. Control frames are
    /// unmasked in place.</param>
    /// <param name="taken">Number of bytes consumed, which are not passed again, including the piece or control
    /// frame.</param>
    internal WebSocketReading Read(Span<byte> unread, out int taken)
    {
        taken = 0;
        if (Rule != WebSocketRule.None) return WebSocketReading.Broken;
        if (_isClosed)
        {
            taken = unread.Length;
            return WebSocketReading.Done;
        }

        while (!_isInFrame)
        {
            Rule = ReadHead(unread[taken..], out Head head);
            if (Rule != WebSocketRule.None) return WebSocketReading.Broken;
            if (head.Bytes == 0) return WebSocketReading.NeedMore;
            if (head.Opcode >= WebSocketOpcode.Close) return ReadControl(head, unread, ref taken);
            BeginFrame(head);
            taken += head.Bytes;
            if (_left > 0) break;
            // An empty frame is reported only if it ends a message, because it has no data.
            if (head.IsFinal) return TakePiece(0, ref taken);
            _isInFrame = false;
        }

        int length = (int)Math.Min(unread.Length - taken, _left);
        return length == 0 ? WebSocketReading.NeedMore : TakePiece(length, ref taken);
    }

    // ------------------------------------------------------------------ messages

    private void BeginFrame(in Head head)
    {
        if (head.Opcode != WebSocketOpcode.Continuation)
        {
            _message = head.Opcode;
            IsCompressed = head.IsCompressed;
            _isFirst = true;
            _total = 0;
            _emptyFrames = 0;
        }

        _isInFrame = true;
        _isLastFrame = head.IsFinal;
        _left = head.Length;
        _total += head.Length;
        _nextKey = head.Key;
        if (head.Length == 0) _emptyFrames++;
    }

    private WebSocketReading TakePiece(int length, ref int taken)
    {
        Start = taken;
        Length = length;
        Key = _nextKey;
        Opcode = _message;
        IsFirst = _isFirst;
        taken += length;
        _left -= length;
        _nextKey = WebSocketMask.Rotate(_nextKey, length);
        _isFirst = false;
        _isInFrame = _left > 0;
        IsLast = !_isInFrame && _isLastFrame;
        if (IsLast) _message = WebSocketOpcode.Continuation;
        return WebSocketReading.Piece;
    }

    private WebSocketReading ReadControl(in Head head, Span<byte> unread, ref int taken)
    {
        int length = (int)head.Length;
        int start = taken + head.Bytes;
        if (unread.Length - start < length) return WebSocketReading.NeedMore;
        Span<byte> payload = unread.Slice(start, length);
        WebSocketMask.Apply(payload, head.Key);
        Start = start;
        Length = length;
        Key = 0;
        Opcode = head.Opcode;
        taken = start + length;
        if (head.Opcode != WebSocketOpcode.Close) return WebSocketReading.Control;
        Rule = WebSocketClose.Check(payload);
        _isClosed = true;
        return Rule == WebSocketRule.None ? WebSocketReading.Control : WebSocketReading.Broken;
    }

    // ------------------------------------------------------------------ heads

    private struct Head
    {
        /// <summary>Bytes of the head; 0 while it is incomplete.</summary>
        internal int Bytes;
        internal uint Key;
        internal long Length;
        internal WebSocketOpcode Opcode;
        internal bool IsFinal;
        internal bool IsCompressed;
    }

    // In the order of the bytes, so that the reported rule does not depend on how they are split.
    private readonly WebSocketRule ReadHead(ReadOnlySpan<byte> unread, out Head head)
    {
        head = default;
        if (unread.IsEmpty) return WebSocketRule.None;
        WebSocketRule rule = ReadFirst(unread[0], ref head);
        if (rule != WebSocketRule.None || unread.Length == 1) return rule;
        bool isMasked = (unread[1] & 0x80) != 0;
        int length = unread[1] & 0x7F;
        rule = JudgeSecond(head.Opcode, isMasked, length);
        if (rule != WebSocketRule.None) return rule;
        int bytes = 2;
        head.Length = length;
        if (length > MostControlBytes)
        {
            bytes = length == 126 ? 4 : 10;
            if (unread.Length < bytes) return WebSocketRule.None;
            rule = ReadLength(unread[2..bytes], out head.Length);
            if (rule != WebSocketRule.None) return rule;
        }

        if (head.Opcode < WebSocketOpcode.Close)
        {
            long before = head.Opcode == WebSocketOpcode.Continuation ? _total : 0;
            if (head.Length > _messageLimit - before) return WebSocketRule.MessageTooLarge;
            if (head.Length == 0 && !head.IsFinal && head.Opcode == WebSocketOpcode.Continuation
                && _emptyFrames >= MostEmptyFrames)
                return WebSocketRule.TooManyEmptyFrames;
        }

        if (isMasked)
        {
            if (unread.Length < bytes + 4) return WebSocketRule.None;
            head.Key = BinaryPrimitives.ReadUInt32LittleEndian(unread[bytes..]);
            bytes += 4;
        }

        head.Bytes = bytes;
        return WebSocketRule.None;
    }

    private readonly WebSocketRule ReadFirst(byte first, ref Head head)
    {
        head.IsFinal = (first & 0x80) != 0;
        head.IsCompressed = (first & 0x40) != 0;
        head.Opcode = (WebSocketOpcode)(first & 0x0F);
        if ((first & 0x30) != 0) return WebSocketRule.ReservedBit;
        if (head.IsCompressed && !(_mayCompress && head.Opcode is WebSocketOpcode.Text or WebSocketOpcode.Binary))
            return WebSocketRule.ReservedBit;
        return head.Opcode switch
        {
            WebSocketOpcode.Continuation => IsInMessage ? WebSocketRule.None : WebSocketRule.NothingToContinue,
            WebSocketOpcode.Text or WebSocketOpcode.Binary =>
                IsInMessage ? WebSocketRule.MessageInMessage : WebSocketRule.None,
            WebSocketOpcode.Close or WebSocketOpcode.Ping or WebSocketOpcode.Pong =>
                head.IsFinal ? WebSocketRule.None : WebSocketRule.FragmentedControl,
            _ => WebSocketRule.ReservedOpcode,
        };
    }

    private readonly WebSocketRule JudgeSecond(WebSocketOpcode opcode, bool isMasked, int length)
    {
        if (isMasked != (_role == WebSocketRole.Server))
            return isMasked ? WebSocketRule.Masked : WebSocketRule.NotMasked;
        if (opcode < WebSocketOpcode.Close) return WebSocketRule.None;
        if (length > MostControlBytes) return WebSocketRule.LongControl;
        return opcode == WebSocketOpcode.Close && length == 1 ? WebSocketRule.CloseTooShort : WebSocketRule.None;
    }

    private static WebSocketRule ReadLength(ReadOnlySpan<byte> bytes, out long length)
    {
        if (bytes.Length == 2)
        {
            length = BinaryPrimitives.ReadUInt16BigEndian(bytes);
            return length > MostControlBytes ? WebSocketRule.None : WebSocketRule.LengthNotMinimal;
        }

        length = BinaryPrimitives.ReadInt64BigEndian(bytes);
        if (length < 0) return WebSocketRule.LengthTooLarge;
        return length > ushort.MaxValue ? WebSocketRule.None : WebSocketRule.LengthNotMinimal;
    }
}

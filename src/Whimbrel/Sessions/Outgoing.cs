using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// One message for <see cref="Session.Send(in Outgoing)"/> or
/// <see cref="Session.SendAsync(in Outgoing, CancellationToken)"/> that is more than a span, memory or a text: pieces,
/// a sequence, owned memory, shared bytes, a part of a file, or the content of a writer. Created by its factories in
/// the call that sends it. It is a view: it allocates nothing, owns nothing, and cannot be stored.
/// </summary>
/// <remarks>
/// A message is queued completely or not at all, with nothing between its parts. The send checks the message, so a
/// range outside of its memory or file, and the default of this type, throw there.
/// </remarks>
public readonly ref struct Outgoing
{
    private readonly ref readonly byte _data; // bytes, pieces, a sequence or characters, by the form
    private readonly ReadOnlySpan<byte> _head;
    private readonly ReadOnlyMemory<byte> _headMemory;
    private readonly object? _source;
    private readonly long _offset;
    private readonly long _length;
    private readonly int _count;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Outgoing(OutgoingForm form, ReadOnlySpan<byte> head, ref readonly byte data, int count)
    {
        Form = form;
        _head = head;
        _data = ref data;
        _count = count;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Outgoing(OutgoingForm form, object source, long offset, long length)
    {
        Form = form;
        _source = source;
        _offset = offset;
        _length = length;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Outgoing(scoped in Outgoing message, ReadOnlySpan<byte> head, ReadOnlyMemory<byte> headMemory)
    {
        Form = message.Form;
        _head = head;
        _headMemory = headMemory;
        _source = message._source;
        _offset = message._offset;
        _length = message._length;
    }

    /// <summary>A copy of two parts.</summary>
    /// <param name="first">First part.</param>
    /// <param name="second">Second part.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Pieces(ReadOnlySpan<byte> first, ReadOnlySpan<byte> second) =>
        new(OutgoingForm.TwoSpans, first, in MemoryMarshal.GetReference(second), second.Length);

    /// <summary>
    /// A copy of any number of pieces. If the queue is empty, messages of 16 KiB and more are sent at once from their
    /// own memory. More than 16 pieces, and pieces sent by another thread, are joined by a copy first; so are more than
    /// two in <c>SendAsync</c>.
    /// </summary>
    /// <param name="pieces">Pieces in their order. They may be reused when <c>Send</c> has returned or
    /// <c>SendAsync</c> has completed. If their memory throws, the send throws and nothing is queued.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Pieces(ReadOnlySpan<ReadOnlyMemory<byte>> pieces) =>
        // Safe: PieceSpan reads it back as what it is, and only for this form.
        new(
            OutgoingForm.Pieces,
            default,
            in Unsafe.As<ReadOnlyMemory<byte>, byte>(ref MemoryMarshal.GetReference(pieces)),
            pieces.Length);

    /// <summary>A copy of a sequence, as of <see cref="Pieces(ReadOnlySpan{ReadOnlyMemory{byte}})"/>.</summary>
    /// <param name="data">Bytes to send.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Sequence(in ReadOnlySequence<byte> data) =>
        // Safe: SequenceHere reads it back as what it is, and only for this form.
        new(OutgoingForm.Sequence, default, in Unsafe.As<ReadOnlySequence<byte>, byte>(ref Unsafe.AsRef(in data)), 0);

    /// <summary>A copy of a text, as UTF-8.</summary>
    /// <param name="text">Text to send.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Text(ReadOnlySpan<char> text) =>
        // Safe: TextSpan reads it back as what it is, and only for this form.
        new(OutgoingForm.Text, default, in Unsafe.As<char, byte>(ref MemoryMarshal.GetReference(text)), text.Length);

    /// <summary>
    /// Memory that is sent without a copy from 16 KiB on. If the result is <see cref="SendResult.Queued"/>, the library
    /// owns the memory and disposes it, on any thread, when it is sent or the connection ends. With any other result,
    /// and if the send throws, the caller keeps ownership. <c>SendAsync</c> may copy, and disposes it when it
    /// completes.
    /// </summary>
    /// <remarks>
    /// If the memory throws later (from Dispose, or because other code disposed it), the connection ends with
    /// <see cref="CloseCause.UserException"/> and a diagnostic event.
    /// </remarks>
    /// <param name="owner">Owner of the memory.</param>
    /// <param name="length">Number of bytes to send, from the start.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Owned(IMemoryOwner<byte> owner, int length) => Owned(owner, 0, length);

    /// <summary>A part of memory, as of <see cref="Owned(IMemoryOwner{byte}, int)"/>.</summary>
    /// <param name="owner">Owner of the memory.</param>
    /// <param name="offset">Offset of the first byte to send in the memory.</param>
    /// <param name="length">Number of bytes to send.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Owned(IMemoryOwner<byte> owner, int offset, int length)
    {
        ArgumentNullException.ThrowIfNull(owner);
        return new(OutgoingForm.Owned, owner, offset, length);
    }

    /// <summary>All of the shared bytes, without a copy from 16 KiB on. The caller keeps its reference.</summary>
    /// <param name="bytes">Shared bytes. Many sessions may have them queued at the same time.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Shared(SharedBytes bytes)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        return Shared(bytes, 0, bytes.Length);
    }

    /// <summary>A part of shared bytes, as of <see cref="Shared(SharedBytes)"/>.</summary>
    /// <param name="bytes">Shared bytes. Many sessions may have them queued at the same time.</param>
    /// <param name="offset">Offset of the first byte to send.</param>
    /// <param name="length">Number of bytes to send.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Shared(SharedBytes bytes, int offset, int length)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        return new(OutgoingForm.Shared, bytes, offset, length);
    }

    /// <summary>All of a file, as long as it was when it was opened. See the other <c>File</c>.</summary>
    /// <param name="file">File to send from. Many sessions may have parts of it queued at the same time.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing File(FileSource file)
    {
        ArgumentNullException.ThrowIfNull(file);
        return File(file, 0, file.Length);
    }

    /// <summary>
    /// A part of a file. Where possible (epoll, io_uring, without TLS) the kernel sends it from the page cache;
    /// otherwise the thread pool reads it in pieces. It counts as 1 KiB per started GiB against the send limit, and
    /// with all its bytes in <see cref="Session.BytesPending"/>. If another thread sends it, it is included from the
    /// moment the loop processes it. The caller keeps its reference, whatever the result. If the file becomes shorter
    /// than announced, the connection ends with <see cref="CloseCause.FileFailed"/>.
    /// </summary>
    /// <param name="file">File to send from. Many sessions may have parts of it queued at the same time.</param>
    /// <param name="offset">Offset of the first byte to send.</param>
    /// <param name="length">Number of bytes to send.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing File(FileSource file, long offset, long length)
    {
        ArgumentNullException.ThrowIfNull(file);
        return new(OutgoingForm.File, file, offset, length);
    }

    /// <summary>
    /// The content of a writer, which is empty when it was queued. With any result other than
    /// <see cref="SendResult.Queued"/> the message stays in the writer: send it later, send it elsewhere, or clear it.
    /// Up to 32 KiB are copied into the queue; of larger messages <c>Send</c> takes the memory itself, and
    /// <c>SendAsync</c> copies. The writer cannot be used until the send has returned or completed.
    /// </summary>
    /// <param name="writer">Writer with the message.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static Outgoing Written(MessageWriter writer)
    {
        ArgumentNullException.ThrowIfNull(writer);
        return new(OutgoingForm.Written, writer, 0, 0);
    }

    /// <summary>
    /// Adds first bytes, such as the header of a protocol. The send copies them. For owned memory, shared bytes and
    /// files, once.
    /// </summary>
    /// <param name="head">First bytes of the message. May be empty, and may be reused after the send's call.</param>
    /// <exception cref="InvalidOperationException">The message has a head already, or is of another form.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public Outgoing WithHead(ReadOnlySpan<byte> head)
    {
        if (Form < OutgoingForm.Owned || HasHead) ThrowHead();
        return new(this, head, default);
    }

    /// <summary>
    /// Adds first bytes, as the other form does; <c>SendAsync</c> needs no copy of them to wait.
    /// </summary>
    /// <param name="head">First bytes of the message. May be empty, and may be reused when <c>Send</c> has returned or
    /// <c>SendAsync</c> has completed.</param>
    /// <exception cref="InvalidOperationException">The message has a head already, or is of another form.</exception>
    [OverloadResolutionPriority(1)]
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public Outgoing WithHead(ReadOnlyMemory<byte> head)
    {
        if (Form < OutgoingForm.Owned || HasHead) ThrowHead();
        return new(this, default, head);
    }

    internal OutgoingForm Form { get; }

    /// <summary>The first of two spans.</summary>
    internal ReadOnlySpan<byte> First => _head;

    internal ReadOnlySpan<byte> Head
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => _headMemory.IsEmpty ? _head : _headMemory.Span;
    }

    /// <summary>True if the head is a span, which <c>SendAsync</c> copies.</summary>
    internal bool HasHeadSpan => !_head.IsEmpty;

    internal ReadOnlyMemory<byte> HeadMemory => _headMemory;

    private bool HasHead => !_head.IsEmpty || !_headMemory.IsEmpty;

    // Safe: a factory stores an object of its parameter's type, with the form that is read back with it.
    internal IMemoryOwner<byte> Owner
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Unsafe.As<IMemoryOwner<byte>>(_source!);
    }

    internal SharedBytes SharedBytes
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Unsafe.As<SharedBytes>(_source!);
    }

    internal FileSource FileSource
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Unsafe.As<FileSource>(_source!);
    }

    internal MessageWriter Writer
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Unsafe.As<MessageWriter>(_source!);
    }

    internal long Offset => _offset;

    internal long Length => _length;

    /// <summary>The second of two spans.</summary>
    internal ReadOnlySpan<byte> Second
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => MemoryMarshal.CreateReadOnlySpan(in _data, _count);
    }

    internal ReadOnlySpan<ReadOnlyMemory<byte>> PieceSpan
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        // Safe: for its form the data began as a reference to this many pieces.
        get
        {
            ref ReadOnlyMemory<byte> first = ref Unsafe.As<byte, ReadOnlyMemory<byte>>(ref Unsafe.AsRef(in _data));
            return MemoryMarshal.CreateReadOnlySpan(ref first, _count);
        }
    }

    internal ReadOnlySpan<char> TextSpan =>
        // Safe: for its form the data began as a reference to this many characters.
        MemoryMarshal.CreateReadOnlySpan(ref Unsafe.As<byte, char>(ref Unsafe.AsRef(in _data)), _count);

    internal ref readonly ReadOnlySequence<byte> SequenceHere
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        // Safe: for its form the data began as a reference to a sequence.
        get => ref Unsafe.As<byte, ReadOnlySequence<byte>>(ref Unsafe.AsRef(in _data));
    }

    [DoesNotReturn]
    private void ThrowHead()
    {
        if (Form == OutgoingForm.None) ThrowNone();
        Throw.State(Form >= OutgoingForm.Owned
            ? "The message has a head already. Join both, and pass them to one WithHead."
            : "Only owned memory, shared bytes and files take a head. "
                + "Pass the head to Outgoing.Pieces as the first piece, or write it into the MessageWriter first.");
    }

    [DoesNotReturn]
    internal static void ThrowNone() =>
        throw new ArgumentException(
            "The message is the default of Outgoing, which has no content. "
            + "Create it with a factory, such as Outgoing.Pieces or Outgoing.Owned.");
}

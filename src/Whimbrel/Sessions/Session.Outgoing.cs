using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Sends of the forms of <see cref="Outgoing"/>.</summary>
public abstract partial class Session
{
    /// <summary>
    /// Queues a message of any form, completely or not at all, with nothing between its parts. Any thread.
    /// </summary>
    /// <param name="message">Message, created by a factory of <see cref="Outgoing"/>.</param>
    /// <exception cref="ArgumentException">The message is the default of its type; or it is larger than
    /// <see cref="SendLimitBytes"/>, and <see cref="AllowLargeMessages"/> is false. Nothing was queued and the
    /// connection continues.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The range is outside of the memory or file.</exception>
    /// <exception cref="ObjectDisposedException">All references to the shared bytes or the file were
    /// released.</exception>
    /// <exception cref="InvalidOperationException">The writer's memory is pinned, for example by a pending read; or the
    /// writer is being sent.</exception>
    // Inlined with the factories, so that the form is a constant at the call and only its branch remains. Methods of
    // the branches are not inlined: the budget of the compiler would be used up before all branches are resolved.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public SendResult Send(scoped in Outgoing message)
    {
        if (message.Form == OutgoingForm.TwoSpans) return SendPieces(message.First, message.Second);
        if (message.Form == OutgoingForm.Owned)
            return SendOwned(message.Head, message.Owner, (int)message.Offset, (int)message.Length);
        if (message.Form == OutgoingForm.Shared)
            return SendShared(message.Head, message.SharedBytes, (int)message.Offset, (int)message.Length);
        if (message.Form == OutgoingForm.File)
            return SendFile(message.Head, message.FileSource, message.Offset, message.Length);
        if (message.Form == OutgoingForm.Pieces) return SendPieces(message.PieceSpan);
        if (message.Form == OutgoingForm.Sequence) return SendSequence(message.SequenceHere);
        if (message.Form == OutgoingForm.Written) return SendWritten(message.Writer);
        return SendOther(message);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendOther(scoped Outgoing message)
    {
        if (message.Form != OutgoingForm.Text) Outgoing.ThrowNone();
        return SendText(message.TextSpan);
    }

    /// <summary>
    /// Waits for queue space, then queues a message of any form. When the task completes, the message is queued, not
    /// necessarily sent. Memory of pieces and sequences may be reused then; spans and texts are copied by the call.
    /// Owned memory and the content of a writer are taken only if the result is <see cref="SendResult.Queued"/>.
    /// Exceptions are those of <see cref="Send(in Outgoing)"/>, except that a message of any length is sent.
    /// </summary>
    /// <param name="message">Message, created by a factory of <see cref="Outgoing"/>.</param>
    /// <param name="cancellationToken">Cancels the wait. After the first part of a message above the send limit was
    /// queued, it aborts the connection.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ValueTask<SendResult> SendAsync(scoped in Outgoing message, CancellationToken cancellationToken = default)
    {
        if (message.Form == OutgoingForm.Pieces)
        {
            ReadOnlySpan<ReadOnlyMemory<byte>> pieces = message.PieceSpan;
            return pieces.Length == 2
                ? SendTwoAsync(pieces[0], pieces[1], cancellationToken)
                : SendPiecesAsync(pieces, cancellationToken);
        }

        if (message.Form == OutgoingForm.Sequence) return SendSequenceAsync(message.SequenceHere, cancellationToken);
        if (message.Form == OutgoingForm.File && !message.HasHeadSpan)
        {
            FileSource source = message.FileSource;
            return SendFileAsync(message.HeadMemory, null, source, message.Offset, message.Length, cancellationToken);
        }

        return SendOtherAsync(message, cancellationToken);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ValueTask<SendResult> SendOtherAsync(scoped Outgoing message, CancellationToken cancellationToken)
    {
        switch (message.Form)
        {
            case OutgoingForm.TwoSpans:
                return SendJoinedAsync(message.First, message.Second, cancellationToken);
            case OutgoingForm.Text:
                return SendTextAsync(message.TextSpan, cancellationToken);
            case OutgoingForm.Owned:
                return SendOwnedAsync(message, message.Owner, cancellationToken);
            case OutgoingForm.Shared:
                return SendSharedAsync(message, message.SharedBytes, cancellationToken);
            case OutgoingForm.File:
                ReadOnlyMemory<byte> head = CopyOf(message.Head, out byte[]? rented);
                FileSource source = message.FileSource;
                return SendFileAsync(head, rented, source, message.Offset, message.Length, cancellationToken);
            case OutgoingForm.Written:
                return SendWrittenAsync(message.Writer, cancellationToken);
            default:
                Outgoing.ThrowNone();
                return default;
        }
    }

    // ------------------------------------------------------------------ Send, by form

    /// <summary>Queues a copy of two parts as one message.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    internal SendResult SendPieces(ReadOnlySpan<byte> first, ReadOnlySpan<byte> second) =>
        _connection is { } connection ? connection.Outbound.Send(first, second, _generation) : SendResult.Closed;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendPieces(ReadOnlySpan<ReadOnlyMemory<byte>> pieces) =>
        _connection is { } connection
            ? connection.Outbound.Send(new Pieces(pieces, default), _generation)
            : SendResult.Closed;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendSequence(in ReadOnlySequence<byte> data)
    {
        if (data.IsSingleSegment) return Send(data.FirstSpan);
        if (_connection is not { } connection) return SendResult.Closed;
        return connection.Outbound.Send(new Pieces(default, data), _generation);
    }

    private SendResult SendText(ReadOnlySpan<char> text)
    {
        using Utf8Text encoded = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return Send(encoded.Bytes);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendOwned(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, int offset, int length)
    {
        Memory<byte> part = PartOf(owner, offset, length);
        if (_connection is not { } connection) return SendResult.Closed;
        return connection.Outbound.SendOwned(head, owner, part, offset, _generation);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static Memory<byte> PartOf(IMemoryOwner<byte> owner, int offset, int length)
    {
        Memory<byte> memory = owner.Memory;
        bool isInside = (uint)offset <= (uint)memory.Length && (uint)length <= (uint)(memory.Length - offset);
        if (!isInside) ThrowPart(offset, length, memory.Length);
        return memory.Slice(offset, length);
    }

    [DoesNotReturn]
    private static void ThrowPart(int offset, int length, int size)
    {
        if ((uint)offset > (uint)size) Throw.OutOfRange(nameof(offset), offset, $"between 0 and {size}");
        Throw.OutOfRange(nameof(length), length, $"between 0 and {size - offset}: the memory has {size} bytes");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendShared(ReadOnlySpan<byte> head, SharedBytes bytes, int offset, int length)
    {
        IMemoryOwner<byte> loan = bytes.Lend();
        SendResult result = SendResult.Closed;
        try
        {
            return result = SendOwned(head, loan, offset, length);
        }
        finally
        {
            if (result != SendResult.Queued) loan.Dispose();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendFile(ReadOnlySpan<byte> head, FileSource file, long offset, long length)
    {
        FileRange part = file.Lend(offset, length);
        try
        {
            return _connection is { } connection
                ? connection.Outbound.SendFile(head, part, _generation)
                : SendResult.Closed;
        }
        finally
        {
            part.File.EndLoan();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendWritten(MessageWriter writer)
    {
        writer.BeginSend();
        bool isCopied = writer.IsInOneBlock;
        SendResult result = SendResult.Closed;
        try
        {
            if (_connection is not { } connection) return SendResult.Closed;
            return result = isCopied
                ? connection.Outbound.Send(writer.WrittenInOneBlock, _generation)
                : connection.Outbound.SendWritten(writer.Blocks, writer.Length, _generation);
        }
        finally
        {
            writer.EndSend(result, tookBlocks: !isCopied);
        }
    }

    // ------------------------------------------------------------------ SendAsync, by form

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ValueTask<SendResult> SendSequenceAsync(in ReadOnlySequence<byte> data, CancellationToken cancellationToken)
    {
        if (data.IsSingleSegment) return SendAsync(data.First, cancellationToken);
        if (_connection is not { } connection) return new(SendResult.Closed);
        return connection.Outbound.SendAsync(default, default, data, default, _generation, cancellationToken);
    }

    private ValueTask<SendResult> SendTextAsync(ReadOnlySpan<char> text, CancellationToken cancellationToken)
    {
        byte[] bytes = ArrayPool<byte>.Shared.Rent(Encoding.UTF8.GetMaxByteCount(text.Length));
        int length = Encoding.UTF8.GetBytes(text, bytes);
        return SendHeldAsync(bytes.AsMemory(0, length), default, default, bytes, null, cancellationToken);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ValueTask<SendResult> SendTwoAsync(
        ReadOnlyMemory<byte> first,
        ReadOnlyMemory<byte> second,
        CancellationToken cancellationToken)
    {
        if (_connection is not { } connection) return new(SendResult.Closed);
        return connection.Outbound.SendAsync(first, second, default, default, _generation, cancellationToken);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ValueTask<SendResult> SendPiecesAsync(
        ReadOnlySpan<ReadOnlyMemory<byte>> pieces,
        CancellationToken cancellationToken)
    {
        if (pieces.Length > 2) return SendJoinedAsync(new Pieces(pieces, default), cancellationToken);
        ReadOnlyMemory<byte> first = pieces.IsEmpty ? default : pieces[0];
        ReadOnlyMemory<byte> second = pieces.Length < 2 ? default : pieces[1];
        return SendTwoAsync(first, second, cancellationToken);
    }

    private ValueTask<SendResult> SendJoinedAsync(
        ReadOnlySpan<byte> first,
        ReadOnlySpan<byte> second,
        CancellationToken cancellationToken)
    {
        int length = checked(first.Length + second.Length);
        byte[] joined = ArrayPool<byte>.Shared.Rent(length);
        first.CopyTo(joined);
        second.CopyTo(joined.AsSpan(first.Length));
        return SendHeldAsync(joined.AsMemory(0, length), default, default, joined, null, cancellationToken);
    }

    private ValueTask<SendResult> SendJoinedAsync(scoped in Pieces pieces, CancellationToken cancellationToken)
    {
        int length = checked((int)pieces.Length);
        byte[] joined = ArrayPool<byte>.Shared.Rent(length);
        try
        {
            pieces.CopyTo(joined.AsSpan(0, length));
        }
        catch
        {
            ArrayPool<byte>.Shared.Return(joined);
            throw;
        }

        return SendHeldAsync(joined.AsMemory(0, length), default, default, joined, null, cancellationToken);
    }

    private ValueTask<SendResult> SendOwnedAsync(
        scoped in Outgoing message,
        IMemoryOwner<byte> owner,
        CancellationToken cancellationToken)
    {
        Memory<byte> part = PartOf(owner, (int)message.Offset, (int)message.Length);
        return SendHeldAsync(CopyOf(message.Head, out byte[]? rented), part, default, rented, owner, cancellationToken);
    }

    private ValueTask<SendResult> SendSharedAsync(
        scoped in Outgoing message,
        SharedBytes bytes,
        CancellationToken cancellationToken)
    {
        IMemoryOwner<byte> loan = bytes.Lend();
        Memory<byte> part;
        ReadOnlyMemory<byte> head;
        byte[]? rented;
        try
        {
            part = PartOf(loan, (int)message.Offset, (int)message.Length);
            head = CopyOf(message.Head, out rented);
        }
        catch
        {
            loan.Dispose();
            throw;
        }

        return SendHeldAsync(head, part, default, rented, bytes, cancellationToken);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ValueTask<SendResult> SendFileAsync(
        ReadOnlyMemory<byte> head,
        byte[]? rented,
        FileSource file,
        long offset,
        long length,
        CancellationToken cancellationToken)
    {
        FileRange part = file.Lend(offset, length);
        try
        {
            if (rented is not null) return SendHeldAsync(head, default, part, rented, null, cancellationToken);
            if (_connection is not { } connection) return new(SendResult.Closed);
            return connection.Outbound.SendAsync(head, default, default, part, _generation, cancellationToken);
        }
        finally
        {
            part.File.EndLoan();
        }
    }

    private ValueTask<SendResult> SendWrittenAsync(MessageWriter writer, CancellationToken cancellationToken)
    {
        writer.BeginSend();
        ReadOnlySequence<byte> data = writer.Written;
        ValueTask<SendResult> sending;
        try
        {
            sending = SendSequenceAsync(data, cancellationToken);
        }
        catch
        {
            Release(SendResult.Closed, null, writer);
            throw;
        }

        return Released(sending, null, writer);
    }

    private static ReadOnlyMemory<byte> CopyOf(ReadOnlySpan<byte> head, out byte[]? rented)
    {
        rented = null;
        if (head.IsEmpty) return default;
        rented = ArrayPool<byte>.Shared.Rent(head.Length);
        head.CopyTo(rented);
        return rented.AsMemory(0, head.Length);
    }

    /// <summary>
    /// Sends, and then returns what the message consists of: a rented array; and owned memory, shared bytes or a
    /// writer.
    /// </summary>
    private ValueTask<SendResult> SendHeldAsync(
        ReadOnlyMemory<byte> head,
        ReadOnlyMemory<byte> body,
        in FileRange file,
        byte[]? rented,
        object? held,
        CancellationToken cancellationToken)
    {
        ValueTask<SendResult> sending;
        try
        {
            sending = _connection is { } connection
                ? connection.Outbound.SendAsync(head, body, default, file, _generation, cancellationToken)
                : new(SendResult.Closed);
        }
        catch
        {
            Release(SendResult.Closed, rented, held);
            throw;
        }

        return Released(sending, rented, held);
    }

    private static ValueTask<SendResult> Released(ValueTask<SendResult> sending, byte[]? rented, object? held)
    {
        if (!sending.IsCompleted) return SessionOrder.Keep(SessionOrder.Leave(), ReleaseAfter(sending, rented, held));
        if (!sending.IsCompletedSuccessfully)
        {
            Release(SendResult.Closed, rented, held);
            return sending;
        }

        SendResult result = sending.Result;
        Release(result, rented, held);
        return new(result);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<SendResult> ReleaseAfter(ValueTask<SendResult> sending, byte[]? rented, object? held)
    {
        SendResult result = SendResult.Closed;
        try
        {
            return result = await sending.ConfigureAwait(false);
        }
        finally
        {
            Release(result, rented, held);
        }
    }

    private static void Release(SendResult result, byte[]? rented, object? held)
    {
        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        switch (held)
        {
            case SharedBytes bytes:
                bytes.Loan.Dispose();
                break;
            case MessageWriter writer:
                writer.EndSend(result, tookBlocks: false);
                break;
            case IMemoryOwner<byte> owner when result == SendResult.Queued:
                owner.Dispose();
                break;
        }
    }
}

using System.Runtime.InteropServices;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Uring;

// What each operation does, and the faults injected into it. Safe: an operation's pointers are the engine's, which
// keeps them valid until its last completion; this is what is tested.
internal sealed unsafe partial class SimRing
{
    private const ulong ResidentMask = 0x00FF_FFFF_FFFF_FFFF;

    private SimDescriptor? DescriptorOf(in SubmissionEntry entry) =>
        entry.Opcode is UringAbi.IORING_OP_NOP or UringAbi.IORING_OP_ASYNC_CANCEL
            ? null
            : _kernel.Get(entry.Descriptor, $"{(RingOperation)(entry.UserData >> 56)}");

    private void Start(in SubmissionEntry entry)
    {
        RingOperation kind = (RingOperation)(entry.UserData >> 56);
        CheckMark(kind, entry.UserData);
        SimOperation operation = _spare.Count > 0 ? _spare.Pop() : new SimOperation();
        operation.Reset();
        operation.Mark = entry.UserData;
        operation.Opcode = entry.Opcode;
        operation.Descriptor = DescriptorOf(entry);
        operation.Address = (byte*)entry.Address;
        operation.Length = (int)entry.Length;
        operation.Events = entry.OperationFlags;
        switch (entry.Opcode)
        {
            case UringAbi.IORING_OP_RECV:
                if (entry.Flags != UringAbi.IOSQE_BUFFER_SELECT)
                    throw _kernel.Violation("a receive without a selected buffer");
                operation.IsMultishot = (entry.Priority & UringAbi.IORING_RECV_MULTISHOT) != 0;
                if (entry.TotalLength != 0 && !CanLimitReceive)
                    throw _kernel.Violation("a limited receive where there is none");
                operation.Left = entry.TotalLength == 0 ? long.MaxValue : entry.TotalLength;
                break;
            case UringAbi.IORING_OP_ACCEPT:
                operation.IsMultishot = (entry.Priority & UringAbi.IORING_ACCEPT_MULTISHOT) != 0;
                break;
            case UringAbi.IORING_OP_POLL_ADD:
                operation.IsMultishot = (entry.Length & UringAbi.IORING_POLL_ADD_MULTI) != 0;
                if (operation.IsMultishot && !IsForInput(operation))
                    throw _kernel.Violation("a multishot poll that is not for input");
                // Data that is available when it begins counts as new.
                operation.Descriptor!.PollSaw = default;
                break;
            case UringAbi.IORING_OP_SEND:
                SetPieces(operation, 1)[0] = ((nint)entry.Address, (int)entry.Length);
                operation.Sum = SumOf(operation);
                break;
            case UringAbi.IORING_OP_SENDMSG:
                ReadMessage(operation, (MessageHeader*)entry.Address);
                operation.Sum = SumOf(operation);
                break;
        }

        _kernel.Trace.Add("take", entry.Opcode, operation.Length);
        _running.Add(operation);
        _kernel.Operations++;
        operation.Descriptor?.Begin(operation.Opcode);
        if (entry.Opcode == UringAbi.IORING_OP_ASYNC_CANCEL) Cancel(operation);
        else if (entry.Opcode == UringAbi.IORING_OP_CLOSE
            || !_kernel.Chance(_kernel.Faults.Delay, "operation that starts late"))
            Execute(operation);
    }

    // One operation of a kind at a time, none after the close, no second send after a cancelled one.
    private void CheckMark(RingOperation kind, ulong mark)
    {
        // The wake operation has no resident, and its mark equals that of the first slot's first resident.
        if (kind == RingOperation.Wake) return;
        if (_over.Contains(mark & ResidentMask))
            throw _kernel.Violation($"{kind} came after the close of its descriptor");
        if (kind == RingOperation.Close) _over.Add(mark & ResidentMask);
        if (_over.Contains(mark)) throw _kernel.Violation($"{kind} came after its cancel");
        foreach (SimOperation operation in _running)
        {
            if (operation.Mark == mark)
                throw _kernel.Violation($"a second {kind} came before the last completion of the first");
        }
    }

    private static (nint Base, int Length)[] SetPieces(SimOperation operation, int count)
    {
        operation.PieceCount = count;
        if (operation.Pieces.Length < count) operation.Pieces = new (nint, int)[Math.Max(4, count)];
        return operation.Pieces;
    }

    private static void ReadMessage(SimOperation operation, MessageHeader* message)
    {
        (nint Base, int Length)[] pieces = SetPieces(operation, (int)message->VectorCount);
        IoVector* vectors = message->Vectors;
        operation.Length = 0;
        for (int i = 0; i < operation.PieceCount; i++)
        {
            pieces[i] = ((nint)vectors[i].Base, (int)vectors[i].Length);
            operation.Length += pieces[i].Length;
        }

        // The engine may reuse its scratch memory once the kernel has read it.
        new Span<byte>(vectors, operation.PieceCount * sizeof(IoVector)).Fill(0xDD);
        *message = default;
    }

    private static ulong SumOf(SimOperation operation)
    {
        ulong sum = 0;
        for (int i = 0; i < operation.PieceCount; i++)
        {
            ReadOnlySpan<byte> piece = new((void*)operation.Pieces[i].Base, operation.Pieces[i].Length);
            foreach (ulong word in MemoryMarshal.Cast<byte, ulong>(piece)) sum = (sum * 31) + word;
            if (piece.Length > 0) sum = (sum * 31) + piece[^1];
        }

        return sum;
    }

    // ------------------------------------------------------------------ progress

    private void Progress()
    {
        if (_running.Count == 0) return;
        int first = _kernel.Dice.Next(_running.Count);
        for (int i = 0; i < _running.Count; i++)
        {
            SimOperation operation = _running[(first + i) % _running.Count];
            if (operation.IsEnded
                || (CanGoOn(operation) && _kernel.Chance(_kernel.Faults.Delay, "operation that goes on late")))
                continue;
            Execute(operation);
        }
    }

    // Executing it now would produce a completion.
    private bool CanGoOn(SimOperation operation)
    {
        if (operation.IsEnded) return false;
        if (operation.MustEnd) return true;
        SimDescriptor? descriptor = operation.Descriptor;
        switch (operation.Opcode)
        {
            case UringAbi.IORING_OP_READ:
                return _wake.WakeCount > 0;
            case UringAbi.IORING_OP_RECV:
                return descriptor!.IsNonBlocking
                    ? IsAnswered(descriptor)
                    : descriptor.Socket is null || (IsAnswered(descriptor) && descriptor.IsReadable);
            case UringAbi.IORING_OP_SEND or UringAbi.IORING_OP_SENDMSG:
                return descriptor!.IsNonBlocking || descriptor.IsWriteShut || descriptor.Socket is null
                    || descriptor.Socket.IsWritable;
            case UringAbi.IORING_OP_ACCEPT:
                return descriptor!.Listening!.Waiting.Count > 0;
            case UringAbi.IORING_OP_POLL_ADD:
                if (IsForInput(operation)) return IsAnswered(descriptor!) && descriptor!.HasNews;
                return descriptor!.Listening is { } listening
                    ? listening.Waiting.Count > 0
                    : !descriptor.IsAsked || IsAnswered(descriptor);
            default:
                return true;
        }
    }

    private bool IsAnswered(SimDescriptor descriptor) => descriptor.AnswerAtMs <= _kernel.NowMs;

    private void Execute(SimOperation operation)
    {
        if (operation.IsEnded) return;
        if (!CanGoOn(operation)) return;
        if (operation.Opcode is not (UringAbi.IORING_OP_CLOSE or UringAbi.IORING_OP_NOP or UringAbi.IORING_OP_ACCEPT)
            && _kernel.Chance(_kernel.Faults.Passing, "error that passes"))
        {
            End(operation, -_kernel.Dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ECANCELED));
            return;
        }

        switch (operation.Opcode)
        {
            case UringAbi.IORING_OP_NOP:
                End(operation, 0);
                return;
            case UringAbi.IORING_OP_READ when _wake.WakeCount == 0:
                End(operation, -Errno.ECANCELED);
                return;
            case UringAbi.IORING_OP_READ:
                *(ulong*)operation.Address = _wake.WakeCount;
                _wake.WakeCount = 0;
                End(operation, sizeof(ulong));
                return;
            case UringAbi.IORING_OP_RECV:
                Receive(operation, operation.Descriptor!);
                return;
            case UringAbi.IORING_OP_SEND or UringAbi.IORING_OP_SENDMSG:
                Send(operation, operation.Descriptor!);
                return;
            case UringAbi.IORING_OP_ACCEPT:
                Accept(operation, operation.Descriptor!);
                return;
            case UringAbi.IORING_OP_POLL_ADD:
                Poll(operation, operation.Descriptor!);
                return;
            case UringAbi.IORING_OP_CLOSE:
                CloseDescriptor(operation);
                return;
            default:
                throw _kernel.Violation($"opcode {operation.Opcode} is not one of the engine's");
        }
    }

    // The last completion is decided; this enter or a later one reports it.
    private void End(SimOperation operation, int result, uint flags = 0)
    {
        if (operation.PieceCount > 0 && SumOf(operation) != operation.Sum)
            throw _kernel.Violation($"the {operation.Length} bytes of a send changed while it was running");
        operation.IsEnded = true;
        _late.Add(new Told(operation, result, flags, true));
    }

    // One of several completions; the last one if the multishot ends here.
    private void Bring(SimOperation operation, int result, uint flags)
    {
        if (!operation.IsMultishot || Room <= 1 || operation.Left <= 0
            || _kernel.Chance(_kernel.Faults.EndOfMultishot, "end of a multishot"))
        {
            End(operation, result, flags);
            return;
        }

        _late.Add(new Told(operation, result, flags | UringAbi.IORING_CQE_F_MORE, false));
    }

    // ------------------------------------------------------------------ receive

    private void Receive(SimOperation operation, SimDescriptor descriptor)
    {
        MemorySocket? socket = descriptor.Socket;
        if (socket is null)
        {
            End(operation, -Errno.ECONNREFUSED);
            return;
        }

        if (_kernel.FailReceive(socket) is not 0 and int error)
        {
            End(operation, -error);
            return;
        }

        do
        {
            if (!descriptor.IsReadable)
            {
                if (operation.MustEnd) End(operation, -Errno.ECANCELED);
                else if (descriptor.IsNonBlocking) End(operation, -Errno.EAGAIN);
                return;
            }

            if (socket.Available == 0)
            {
                EndReceive(operation, descriptor, socket);
                return;
            }

            if (_buffers.Count == 0 || _kernel.Chance(_kernel.Faults.NoBuffer, "no buffer"))
            {
                End(operation, -Errno.ENOBUFS);
                return;
            }

            int buffer = _buffers.Dequeue();
            _isOurs[buffer] = false;
            int most = (int)Math.Min(_bufferBytes, operation.Left);
            if (most > 1 && _kernel.Chance(_kernel.Faults.Short, "short receive")) most = _kernel.Dice.Next(1, most);
            int count = socket.Read(new Span<byte>(BufferAt(buffer), most));
            operation.Left -= count;
            _kernel.Trace.Add("receive", descriptor.Number, count);
            Bring(operation, count, UringAbi.IORING_CQE_F_BUFFER | ((uint)buffer << UringAbi.IORING_CQE_BUFFER_SHIFT));
        }
        while (!operation.IsEnded && _kernel.Dice.Chance(500));
    }

    private void EndReceive(SimOperation operation, SimDescriptor descriptor, MemorySocket socket)
    {
        _kernel.Trace.Add("receive-end", descriptor.Number, socket.IsReset ? 1 : 0);
        if (socket.IsReset && !descriptor.ResetWasTold)
        {
            End(operation, SimKernel.TellReset(descriptor));
            return;
        }

        // Some kernels take a buffer before they check for data.
        if (_buffers.Count > 0 && _kernel.Chance(_kernel.Faults.Short, "end with a buffer"))
        {
            int buffer = _buffers.Dequeue();
            _isOurs[buffer] = false;
            End(operation, 0, UringAbi.IORING_CQE_F_BUFFER | ((uint)buffer << UringAbi.IORING_CQE_BUFFER_SHIFT));
            return;
        }

        End(operation, 0);
    }

    // ------------------------------------------------------------------ send

    private void Send(SimOperation operation, SimDescriptor descriptor)
    {
        int result = _kernel.Send(descriptor, operation.Pieces.AsSpan(0, operation.PieceCount), operation.Length);
        if (result != -Errno.EAGAIN || descriptor.IsNonBlocking) End(operation, result);
        else if (operation.MustEnd) End(operation, -Errno.ECANCELED);
    }

    // ------------------------------------------------------------------ accept, poll, close

    private void Accept(SimOperation operation, SimDescriptor descriptor)
    {
        if (_kernel.Chance(_kernel.Faults.AcceptError, "accept that fails"))
        {
            End(operation, -_kernel.Dice.Pick(Errno.ECONNABORTED, Errno.EMFILE, Errno.ENFILE, Errno.EINTR, Errno.ENOMEM,
                Errno.ENOBUFS, Errno.EAGAIN, Errno.EPROTO, Errno.ECANCELED));
            return;
        }

        if (descriptor.Listening!.Waiting.Count == 0)
        {
            if (operation.MustEnd) End(operation, -Errno.ECANCELED);
            return;
        }

        do
        {
            int number =
                _kernel.OpenCount < _kernel.DescriptorLimit ? _kernel.Accept(descriptor.Listening) : -Errno.EMFILE;
            _kernel.Trace.Add("accept", descriptor.Number, number);
            if (number < 0) End(operation, number);
            else Bring(operation, number, 0);
        }
        while (!operation.IsEnded && descriptor.Listening.Waiting.Count > 0 && _kernel.Dice.Chance(500));
    }

    // Of a connection: waits for bytes, the end or an error.
    private static bool IsForInput(SimOperation operation) =>
        operation.Descriptor!.Socket is not null && (operation.Events & EpollAbi.EPOLLIN) != 0;

    private void Poll(SimOperation operation, SimDescriptor descriptor)
    {
        bool isCancelled = IsForInput(operation) ? !descriptor.HasNews : descriptor.IsAsked && !IsAnswered(descriptor);
        if (operation.MustEnd && isCancelled)
        {
            End(operation, -Errno.ECANCELED);
            return;
        }

        if (!IsForInput(operation))
        {
            End(operation, PollResult(descriptor));
            return;
        }

        // Reported once; later data is reported again.
        descriptor.PollSaw = descriptor.Input;
        uint events = EpollAbi.EPOLLIN;
        if (descriptor.Input.Ends != 0) events |= EpollAbi.EPOLLRDHUP;
        if (_kernel.Chance(_kernel.Faults.Short, "urgent bytes"))
        {
            descriptor.IsUrgent = true;
            events |= EpollAbi.EPOLLPRI;
        }

        Bring(operation, (int)events, 0);
    }

    private static int PollResult(SimDescriptor descriptor)
    {
        if (descriptor.Listening is not null) return (int)EpollAbi.EPOLLIN;
        return descriptor.ConnectError == 0
            ? (int)EpollAbi.EPOLLOUT
            : (int)(EpollAbi.EPOLLOUT | EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP);
    }

    private void CloseDescriptor(SimOperation operation)
    {
        SimDescriptor descriptor = operation.Descriptor!;
        operation.Descriptor = null;
        descriptor.End(operation.Opcode);
        if (_kernel.Chance(_kernel.Faults.CloseError, "close that fails"))
        {
            int error = _kernel.Dice.Pick(Errno.EIO, Errno.EINTR, Errno.ENOMEM, Errno.EAGAIN, Errno.ECANCELED);
            // With the first two errors the descriptor is closed, with the others it is not. A ring that may break must
            // have closed it, because the loop could not find out.
            if (_breaksIn >= 0) error = Errno.EIO;
            if (error is Errno.EIO or Errno.EINTR) _kernel.Close(descriptor.Number, "Close");
            End(operation, -error);
            return;
        }

        _kernel.Close(descriptor.Number, "Close");
        End(operation, 0);
    }

    // ------------------------------------------------------------------ cancel

    private void Cancel(SimOperation cancel)
    {
        ulong mark = (ulong)cancel.Address;
        // A send is cancelled only by the end of its connection.
        if ((RingOperation)(mark >> 56) == RingOperation.Send) _over.Add(mark);
        SimOperation? target = _running.Find(o => o.Mark == mark && !ReferenceEquals(o, cancel));
        if (target is null)
        {
            End(cancel, -Errno.ENOENT);
            return;
        }

        if (target.IsEnded)
        {
            End(cancel, -_kernel.Dice.Pick(Errno.ENOENT, Errno.EALREADY));
            return;
        }

        if (_kernel.Chance(_kernel.Faults.FailedCancel, "cancel that fails"))
        {
            End(cancel, -_kernel.Dice.Pick(Errno.ENOENT, Errno.EALREADY, Errno.ENOMEM, Errno.EINTR));
            return;
        }

        if (_kernel.Chance(_kernel.Faults.LateCancel, "cancel that crosses"))
        {
            if (_kernel.Dice.Chance(500))
            {
                target.MustEnd = true;
                End(cancel, -Errno.EALREADY);
                return;
            }

            // The awaited event arrived at the same moment.
            Execute(target);
            if (target.IsEnded)
            {
                End(cancel, -Errno.ENOENT);
                return;
            }
        }

        End(target, -_kernel.Dice.Pick(Errno.ECANCELED, Errno.ECANCELED, Errno.EINTR));
        End(cancel, 0);
    }
}

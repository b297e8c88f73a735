using Whimbrel.Engines;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Each way in which a kernel or a sandbox refuses io_uring leads to a named reason, or to a ring with fewer
/// features.</summary>
// Safe: arguments of the overrides are valid during the call, and are read then.
public sealed unsafe class UringProbeTests
{
    private static void NeedsUring() => Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);

    /// <summary>Returns given results for ring set-ups; the kernel handles the rest.</summary>
    private sealed class Answering(Func<uint, uint, int> setup) : RingCalls
    {
        internal uint LastFlags { get; private set; }

        internal uint LastEntries { get; private set; }

        internal byte MissingOpcode { get; init; }

        /// <summary>Including number 0, which is an opcode.</summary>
        internal bool HidesOpcode { get; init; }

        internal int BufferRingError { get; init; }

        internal uint MissingFeatures { get; init; }

        internal ulong DeafTo { get; init; }

        internal uint RefusedRegister { get; init; }

        /// <summary>Mark of the completion that is changed before the probe sees it.</summary>
        internal ulong Changed { get; init; }

        internal int ChangedResult { get; init; }

        /// <summary>Only the flag that announces further completions is removed.</summary>
        internal bool EndsOnly { get; init; }

        private byte* _queues;
        private UringParameters _made;
        private uint _seen;

        internal override int Setup(uint entries, UringParameters* parameters)
        {
            (LastFlags, LastEntries) = (parameters->Flags, entries);
            int error = setup(entries, parameters->Flags);
            if (error != 0) return -error;
            int fd = base.Setup(entries, parameters);
            parameters->Features &= ~MissingFeatures;
            if (Changed == 0 || fd < 0) return fd;
            // The queues are shared memory: a second mapping shows the same completions.
            const int readWrite = 3;
            const int shared = 1;
            _made = *parameters;
            _queues = (byte*)Syscall.Map(null, Bytes, readWrite, shared, fd, UringAbi.IORING_OFF_SQ_RING);
            Assert.NotEqual(-1, (nint)_queues);
            return fd;
        }

        internal override int Register(int fd, uint operation, void* argument, uint count)
        {
            if (operation == UringAbi.IORING_REGISTER_PBUF_RING && BufferRingError != 0) return -BufferRingError;
            if (operation == RefusedRegister && RefusedRegister != 0) return -Errno.EPERM;
            int result = base.Register(fd, operation, argument, count);
            if (operation == UringAbi.IORING_REGISTER_PROBE && (MissingOpcode != 0 || HidesOpcode))
                ((ProbedOpcode*)((byte*)argument + 16))[MissingOpcode].Flags = 0;
            return result;
        }

        // The operations are accepted and never executed.
        internal override int Enter(int fd, uint submit, uint complete, uint flags, WaitArgument* argument)
        {
            if (DeafTo != 0) return -Errno.EINTR;
            int result = base.Enter(fd, submit, complete, flags, argument);
            if (_queues is not null) ChangeCompletions();
            return result;
        }

        private nuint Bytes => _made.Completion.Entries + (_made.CompletionEntries * (nuint)sizeof(CompletionEntry));

        private void ChangeCompletions()
        {
            CompletionEntry* entries = (CompletionEntry*)(_queues + _made.Completion.Entries);
            uint tail = Volatile.Read(ref *(uint*)(_queues + _made.Completion.Tail));
            for (; _seen != tail; _seen++)
            {
                CompletionEntry* entry = entries + (_seen & (_made.CompletionEntries - 1));
                if (entry->UserData != Changed) continue;
                entry->Flags &= ~UringAbi.IORING_CQE_F_MORE;
                if (!EndsOnly) entry->Result = ChangedResult;
            }
        }

        internal void Unmap()
        {
            if (_queues is not null) Syscall.Unmap(_queues, Bytes);
        }
    }

    [Theory]
    [InlineData(Errno.EPERM, "forbidden here (EPERM)")]
    [InlineData(Errno.EACCES, "forbidden here (EPERM)")]
    [InlineData(Errno.ENOSYS, "no io_uring, or a sandbox hides it (ENOSYS)")]
    [InlineData(Errno.EINVAL, "too old: it needs Linux 6.1 (EINVAL)")]
    [InlineData(Errno.ENOMEM, "not enough memory for io_uring (ENOMEM)")]
    [InlineData(Errno.EMFILE, "no descriptor left for io_uring (EMFILE)")]
    [InlineData(Errno.EIO, "io_uring_setup: ")]
    public void A_refusal_is_named(int error, string reason)
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "io_uring needs Linux.");
        UringSupport support = UringProbe.Run(new Answering((_, _) => error));
        Assert.False(support.IsOffered);
        Assert.Equal(error, support.Error);
        Assert.Contains(reason, support.Reason, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(UringAbi.IORING_SETUP_NO_SQARRAY)]
    [InlineData(UringAbi.IORING_SETUP_NO_SQARRAY | UringAbi.IORING_SETUP_SUBMIT_ALL)]
    public void A_flag_that_the_kernel_does_not_know_is_left_out(uint unknown)
    {
        NeedsUring();
        Answering calls = new((_, flags) => (flags & unknown) != 0 ? Errno.EINVAL : 0);
        UringSupport support = UringProbe.Run(calls);
        Assert.True(support.IsOffered, support.Reason);
        Assert.Equal(0U, calls.LastFlags & unknown);
        Assert.NotEqual(0U, calls.LastFlags & UringAbi.IORING_SETUP_DEFER_TASKRUN);
    }

    [Fact]
    public void A_flag_that_the_engine_needs_is_never_left_out()
    {
        NeedsUring();
        UringSupport support = UringProbe.Run(
            new Answering((_, flags) => (flags & UringAbi.IORING_SETUP_DEFER_TASKRUN) != 0 ? Errno.EINVAL : 0));
        Assert.False(support.IsOffered);
    }

    [Fact]
    public void With_less_memory_the_ring_is_smaller()
    {
        NeedsUring();
        Answering calls = new((entries, _) => entries > 128 ? Errno.ENOMEM : 0);
        KernelRing? ring = KernelRing.TryOpen(calls, canLimitReceive: false, out RingFailure failure);
        Assert.True(ring is not null, failure.ToString());
        ring.Close(isIdle: true);
        Assert.Equal(128U, calls.LastEntries);
    }

    [Fact]
    public void Memory_released_late_is_waited_for()
    {
        NeedsUring();
        int calls = 0;
        KernelRing? ring = KernelRing.TryOpen(new Answering((_, _) => calls++ < 7 ? Errno.ENOMEM : 0),
            canLimitReceive: false, out RingFailure failure);
        Assert.True(ring is not null, failure.ToString());
        ring.Close(isIdle: true);
    }

    [Fact]
    public void A_missing_operation_a_missing_feature_and_a_refused_buffer_ring_are_named()
    {
        NeedsUring();
        Assert.Contains("lacks the io_uring operations 13",
            UringProbe.Run(new Answering(static (_, _) => 0) { MissingOpcode = UringAbi.IORING_OP_ACCEPT }).Reason,
            StringComparison.Ordinal);
        Assert.Contains("without 0x100",
            UringProbe.Run(new Answering(static (_, _) => 0) { MissingFeatures = UringAbi.IORING_FEAT_EXT_ARG }).Reason,
            StringComparison.Ordinal);
        UringSupport refused = UringProbe.Run(new Answering(static (_, _) => 0) { BufferRingError = Errno.EPERM });
        Assert.Equal((false, Errno.EPERM), (refused.IsOffered, refused.Error));
        refused = UringProbe.Run(new Answering(static (_, _) => 0) { BufferRingError = Errno.EIO });
        Assert.Contains("registering a ring of buffers", refused.Reason, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(UringAbi.IORING_OP_NOP)]
    [InlineData(UringAbi.IORING_OP_POLL_ADD)]
    [InlineData(UringAbi.IORING_OP_SENDMSG)]
    [InlineData(UringAbi.IORING_OP_ACCEPT)]
    [InlineData(UringAbi.IORING_OP_ASYNC_CANCEL)]
    [InlineData(UringAbi.IORING_OP_CLOSE)]
    [InlineData(UringAbi.IORING_OP_READ)]
    [InlineData(UringAbi.IORING_OP_SEND)]
    [InlineData(UringAbi.IORING_OP_RECV)]
    public void Each_operation_that_the_kernel_lacks_is_named(byte opcode)
    {
        NeedsUring();
        Answering calls = new(static (_, _) => 0) { MissingOpcode = opcode, HidesOpcode = true };
        UringSupport support = UringProbe.Run(calls);
        Assert.Equal((false, $"this kernel lacks the io_uring operations {opcode}"),
            (support.IsOffered, support.Reason));
    }

    [Theory]
    [InlineData(UringAbi.IORING_FEAT_SINGLE_MMAP)]
    [InlineData(UringAbi.IORING_FEAT_NODROP)]
    [InlineData(UringAbi.IORING_FEAT_SUBMIT_STABLE)]
    [InlineData(UringAbi.IORING_FEAT_FAST_POLL)]
    [InlineData(UringAbi.IORING_FEAT_EXT_ARG)]
    public void Each_feature_that_the_kernel_lacks_is_named(uint feature)
    {
        NeedsUring();
        UringSupport support = UringProbe.Run(new Answering(static (_, _) => 0) { MissingFeatures = feature });
        Assert.False(support.IsOffered);
        Assert.Contains($"too old: features 0x", support.Reason, StringComparison.Ordinal);
        Assert.EndsWith($" without 0x{feature:x}", support.Reason, StringComparison.Ordinal);
    }

    /// <summary>The marks are those of the self-test's operations: simulates a kernel that claims a feature and behaves
    /// differently.</summary>
    [Theory]
    [InlineData(2UL, 3, "io_uring does not send here")]
    [InlineData(2UL, -Errno.EPERM, "io_uring does not send here")]
    [InlineData(1UL, 3, "a receive of io_uring brought the wrong bytes")]
    [InlineData(1UL, -Errno.EIO, "a receive of io_uring brought the wrong bytes")]
    [InlineData(4UL, -Errno.EOPNOTSUPP, "io_uring does not send messages here")]
    public void Each_step_of_the_self_test_that_fails_is_named(ulong mark, int result, string reason)
    {
        NeedsUring();
        Answering calls = new(static (_, _) => 0) { Changed = mark, ChangedResult = result };
        UringSupport support = UringProbe.Run(calls);
        calls.Unmap();
        Assert.Equal((false, reason), (support.IsOffered, support.Reason));
    }

    [Fact]
    public void A_multishot_receive_that_ends_after_one_message_fails_the_self_test()
    {
        NeedsUring();
        Assert.SkipUnless(UringProbe.Here.CanLimitReceive, "Receiving with this flag needs Linux 6.16.");
        Answering calls = new(static (_, _) => 0) { Changed = 3, EndsOnly = true };
        UringSupport support = UringProbe.Run(calls);
        calls.Unmap();
        Assert.Equal((false, "a multishot receive of io_uring ended by itself"), (support.IsOffered, support.Reason));
    }

    [Fact]
    public void At_the_limit_of_locked_memory_the_reason_names_the_limit()
    {
        NeedsUring();
        // At the set-up, where smaller rings are tried first, and at the registration of the buffers.
        List<uint> tried = [];
        Assert.Contains("locked-memory limit: ulimit -l", UringProbe.Run(new Answering((entries, _) =>
        {
            tried.Add(entries);
            return Errno.ENOMEM;
        })).Advice, StringComparison.Ordinal);
        Assert.True(tried.Count > 1, "it was asked for once only");
        UringSupport refused = UringProbe.Run(new Answering(static (_, _) => 0) { BufferRingError = Errno.ENOMEM });
        Assert.Equal((false, Errno.ENOMEM), (refused.IsOffered, refused.Error));
        Assert.Contains("locked-memory limit: ulimit -l", refused.Advice, StringComparison.Ordinal);
    }

    [Fact]
    public void A_ring_that_cannot_be_enabled_is_not_offered_and_one_that_cannot_be_registered_is()
    {
        NeedsUring();
        UringSupport support = UringProbe.Run(
            new Answering(static (_, _) => 0) { RefusedRegister = UringAbi.IORING_REGISTER_ENABLE_RINGS });
        Assert.Equal((false, "io_uring does not send here"), (support.IsOffered, support.Reason));
        support =
            UringProbe.Run(new Answering(static (_, _) => 0) { RefusedRegister = UringAbi.IORING_REGISTER_RING_FDS });
        Assert.True(support.IsOffered, support.Reason);
        support =
            UringProbe.Run(new Answering(static (_, _) => 0) { RefusedRegister = UringAbi.IORING_REGISTER_PROBE });
        Assert.Equal((false, "this kernel lacks the io_uring operations the probe itself (error 1)"),
            (support.IsOffered, support.Reason));
    }

    [Fact]
    public void A_ring_that_does_nothing_fails_the_self_test_in_time()
    {
        NeedsUring();
        UringSupport support = UringProbe.Run(new Answering(static (_, _) => 0) { DeafTo = 1 });
        Assert.False(support.IsOffered);
        Assert.Contains("does not send here", support.Reason, StringComparison.Ordinal);
    }

    [Fact]
    public void A_probe_leaves_no_descriptor_open()
    {
        NeedsUring();
        int before = Directory.GetFileSystemEntries("/proc/self/fd").Length;
        for (int i = 0; i < 20; i++) Assert.True(UringProbe.Run(RingCalls.System).IsOffered);
        Assert.InRange(Directory.GetFileSystemEntries("/proc/self/fd").Length, 0, before + 10);
    }

    [Fact]
    public void Requesting_uring_where_it_cannot_run_fails_with_the_reason_and_the_page()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "io_uring needs Linux.");
        UringSupport forbidden = UringSupport.No(Errno.EPERM, "io_uring is forbidden here (EPERM): by the test");
        string message = Assert.Throws<PlatformNotSupportedException>(
            () => EngineSelector.Choose(EngineKind.Uring, null, () => forbidden)).Message;
        Assert.Equal("The io_uring engine, asked for by EngineOptions.Kind, cannot run: io_uring is forbidden here "
            + "(EPERM): by the test. Use epoll, or see docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring.",
            message);
        message = Assert.Throws<PlatformNotSupportedException>(
            () => EngineSelector.Choose(EngineKind.Auto, "uring", () => forbidden)).Message;
        Assert.Contains("asked for by WHIMBREL_ENGINE", message, StringComparison.Ordinal);
    }

    [Fact]
    public void Uring_is_preferred_and_a_fallback_gives_its_reason()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "io_uring needs Linux.");
        UringSupport works = new(true, true, 0, "");
        Assert.Equal(new EngineChoice(EngineKind.Uring, "the best engine on this system"),
            EngineSelector.Choose(EngineKind.Auto, null, () => works));
        EngineChoice choice = EngineSelector.Choose(EngineKind.Auto, null,
            static () => UringSupport.No(Errno.EPERM, "by the test"));
        Assert.Equal((EngineKind.Epoll, "by the test"), (choice.Kind, choice.Reason));
        Assert.Equal(UringProbe.Here.IsOffered ? EngineKind.Uring : EngineKind.Epoll,
            EngineSelector.Choose(EngineKind.Auto, null).Kind);
    }

    [Fact]
    public void The_variable_chooses_io_uring_and_the_engine_reports_it()
    {
        NeedsUring();
        Assert.Equal(new EngineChoice(EngineKind.Uring, "asked for by WHIMBREL_ENGINE"),
            EngineSelector.Choose(EngineKind.Auto, "uring"));
        Assert.Equal("uring (1 loop, asked for by EngineOptions.Kind)",
            new Engine(new EngineOptions { Kind = EngineKind.Uring, Loops = 1 }).ToString());
    }
}

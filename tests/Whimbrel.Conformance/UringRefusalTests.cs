using System.Collections.Concurrent;
using System.Diagnostics.Tracing;
using Whimbrel.Engines;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Each reason why io_uring is unavailable is reported with its cause and its cure: in the error, in the
/// engine's reason, and once as a diagnostic event.</summary>
public sealed class UringRefusalTests
{
    private static UringSupport Of(int error, KernelFacts facts = default) =>
        UringRefusal.Of(new RingFailure("io_uring_setup", error), facts);

    private static KernelFacts Facts(int? disabled = null, int? seccomp = null, string release = "6.6.1") =>
        new(release, disabled, seccomp);

    [Theory]
    [InlineData(2, 2, "kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0")]
    [InlineData(1, 0, "kernel.io_uring_disabled is 1", "kernel.io_uring_group=GID")]
    [InlineData(0, 2, "seccomp filter", "docker run --security-opt seccomp=")]
    [InlineData(null, 2, "seccomp filter", "io_uring_setup, io_uring_enter and io_uring_register")]
    [InlineData(0, 0, "security module or a sandbox", "ausearch -m avc")]
    [InlineData(null, null, "security module or a sandbox", "dmesg")]
    public void A_lack_of_permission_is_reported_with_its_cause(int? disabled, int? seccomp, string reason,
        string remedy)
    {
        foreach (int error in (int[])[Errno.EPERM, Errno.EACCES])
        {
            UringSupport support = Of(error, Facts(disabled, seccomp));
            Assert.False(support.IsOffered);
            Assert.Contains("forbidden here (EPERM)", support.Reason, StringComparison.Ordinal);
            Assert.Contains(reason, support.Reason, StringComparison.Ordinal);
            Assert.Contains(remedy, support.Remedy, StringComparison.Ordinal);
        }
    }

    [Theory]
    [InlineData(Errno.ENOSYS, 2, "let the seccomp profile allow")]
    [InlineData(Errno.ENOSYS, 0, "CONFIG_IO_URING")]
    [InlineData(Errno.EINVAL, 0, "run on Linux 6.1 or later; this is 5.15.0-91")]
    [InlineData(0, 0, "run on Linux 6.1 or later; this is 5.15.0-91")]
    [InlineData(Errno.ENOMEM, 0, "ulimit -l unlimited, or LimitMEMLOCK=infinity")]
    [InlineData(Errno.EMFILE, 0, "ulimit -n 100000, or LimitNOFILE=100000")]
    [InlineData(Errno.ENFILE, 0, "sysctl -w fs.file-max")]
    public void Each_refusal_that_has_a_remedy_names_it(int error, int seccomp, string remedy) =>
        Assert.Contains(remedy, Of(error, Facts(0, seccomp, "5.15.0-91")).Remedy, StringComparison.Ordinal);

    [Fact]
    public void An_unexpected_refusal_names_the_step_and_promises_nothing()
    {
        UringSupport support = Of(Errno.EIO);
        Assert.StartsWith("io_uring is not usable: io_uring_setup: ", support.Reason, StringComparison.Ordinal);
        Assert.Empty(support.Remedy);
        Assert.Equal(support.Reason, support.Advice);
    }

    [Fact]
    public void A_failed_self_test_is_blamed_on_the_sandbox_where_there_is_one()
    {
        Assert.Contains("outside of the sandbox", UringRefusal.OfTest("x", Facts(0, 2)).Remedy,
            StringComparison.Ordinal);
        Assert.Contains("Linux 6.1 or later", UringRefusal.OfTest("x", Facts(0, 0)).Remedy, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("0\n", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", 0, 2)]
    [InlineData("2\n", "Name:\tx\nSeccomp:\t0\n", 2, 0)]
    [InlineData(null, null, null, null)]
    [InlineData("", "", null, null)]
    [InlineData("yes", "Name:\tx\nSeccomp:\tmuch\n", null, null)]
    [InlineData("-1", "Seccomp_filters:\t1\n", null, null)]
    public void Settings_of_the_system_are_read_and_garbage_is_ignored(string? disabled, string? status,
        int? expectedDisabled, int? expectedSeccomp)
    {
        string root = Directory.CreateTempSubdirectory("whimbrel-").FullName;
        try
        {
            Directory.CreateDirectory($"{root}/proc/self");
            Directory.CreateDirectory($"{root}/proc/sys/kernel");
            if (disabled is not null) File.WriteAllText($"{root}/proc/sys/kernel/io_uring_disabled", disabled);
            if (status is not null) File.WriteAllText($"{root}/proc/self/status", status);
            Assert.Equal(new KernelFacts("", expectedDisabled, expectedSeccomp), KernelFacts.Read(root));
            File.WriteAllText($"{root}/proc/sys/kernel/osrelease", "6.18.0-test\n");
            Assert.Equal("6.18.0-test", KernelFacts.Read(root).Release);
        }
        finally
        {
            Directory.Delete(root, recursive: true);
        }
    }

    [Fact]
    public void A_fallback_is_reported_once_with_the_way_to_allow_io_uring()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "io_uring needs Linux.");
        List<DiagnosticEvent> notices = [];
        UringSupport refused = Of(Errno.EPERM, Facts(2));
        Engine engine = new(new EngineOptions { Loops = 1, OnDiagnosticEvent = notices.Add },
            asked => EngineSelector.Choose(asked, null, () => refused));
        Assert.Equal(EngineKind.Epoll, engine.Kind);
        Assert.Equal("epoll (1 loop, io_uring is forbidden here (EPERM): kernel.io_uring_disabled is 2, which permits "
            + "no process; to allow it: sysctl -w kernel.io_uring_disabled=0)", engine.ToString());
        Run(engine);
        DiagnosticEvent told = Assert.Single(notices);
        Assert.Equal((DiagnosticEventKind.System, "no-io-uring.md"), (told.Kind, told.Page));
        Assert.Equal(
            "io_uring is forbidden here (EPERM): kernel.io_uring_disabled is 2, which permits no process. Using the "
            + "epoll engine: everything works, with many connections at more CPU per message. "
            + "To allow it: sysctl -w kernel.io_uring_disabled=0. To silence this: WHIMBREL_ENGINE=epoll.",
            told.Message);
    }

    [Fact]
    public void The_event_source_reports_the_engine_with_its_reason_and_the_diagnostic_event()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "io_uring needs Linux.");
        using Listener listener = new();
        Run(new Engine(new EngineOptions { Loops = 1 }, static asked => EngineSelector.Choose(asked, null,
            static () => UringSupport.No(Errno.EPERM, "by the test of events", "nothing"))));
        // Reported concurrently with the start.
        Assert.True(SpinWait.SpinUntil(() => listener.Events.Contains("EngineStarted epoll, by the test of events; to "
            + "allow it: nothing, 1"), TimeSpan.FromSeconds(30)), string.Join('\n', listener.Events));
        string told = Assert.Single(listener.Events, static e => e.StartsWith(
            "DiagnosticEvent System, by the test of events. Using the epoll engine", StringComparison.Ordinal));
        Assert.EndsWith("no-io-uring.md", told, StringComparison.Ordinal);
    }

    private sealed class Listener : EventListener
    {
        internal ConcurrentQueue<string> Events { get; } = new();

        protected override void OnEventSourceCreated(EventSource eventSource)
        {
            if (eventSource.Name == "Whimbrel") EnableEvents(eventSource, EventLevel.Informational);
        }

        // Events of other tests' engines arrive as well. Before the constructor has run there is no queue.
        protected override void OnEventWritten(EventWrittenEventArgs eventData) =>
            Events?.Enqueue($"{eventData.EventName} {string.Join(", ", eventData.Payload ?? [])}");
    }

    [Theory]
    [InlineData(EngineKind.Epoll, null)]
    [InlineData(EngineKind.Auto, "epoll")]
    public void Requesting_epoll_logs_no_diagnostic_event(EngineKind kind, string? variable)
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "epoll needs Linux.");
        List<DiagnosticEvent> notices = [];
        Run(new Engine(new EngineOptions { Kind = kind, Loops = 1, OnDiagnosticEvent = notices.Add },
            asked => EngineSelector.Choose(asked, variable, static () => Of(Errno.EPERM))));
        Assert.Empty(notices);
    }

    [Fact]
    public void Support_can_be_asked_for_each_engine()
    {
        Assert.True(Engine.SupportFor(EngineKind.Portable).IsAvailable);
        Assert.Equal(KernelProbe.HasEpoll, Engine.SupportFor(EngineKind.Epoll).IsAvailable);
        EngineSupport uring = Engine.SupportFor(EngineKind.Uring);
        Assert.Equal((UringProbe.Here.IsOffered, UringProbe.Here.Reason), (uring.IsAvailable, uring.Reason));
        Assert.Equal(uring.IsAvailable, uring.Reason.Length == 0);
        Assert.Throws<ArgumentOutOfRangeException>(() => Engine.SupportFor((EngineKind)9));
    }

    [Fact]
    public void Support_for_auto_is_what_it_takes_or_what_is_wrong_with_the_variable()
    {
        EngineSupport none = EngineSelector.SupportFor(EngineKind.Auto, null);
        Assert.True(none.IsAvailable);
        Assert.NotEqual(EngineKind.Auto, none.Kind);
        EngineSupport portable = EngineSelector.SupportFor(EngineKind.Auto, "portable");
        Assert.Equal(new EngineSupport(EngineKind.Portable, true, "asked for by WHIMBREL_ENGINE", ""), portable);
        EngineSupport wrong = EngineSelector.SupportFor(EngineKind.Auto, "best");
        Assert.False(wrong.IsAvailable);
        Assert.Equal("WHIMBREL_ENGINE = 'best', allowed auto, uring, epoll, portable.", wrong.Reason);
        Assert.Equal("unset WHIMBREL_ENGINE", wrong.Remedy);
    }

    private static void Run(Engine engine)
    {
        // Twice: the diagnostic event is raised at the first start only.
        engine.StartAsync().AsTask().GetAwaiter().GetResult();
        engine.RestartAsync().AsTask().GetAwaiter().GetResult();
        engine.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }
}

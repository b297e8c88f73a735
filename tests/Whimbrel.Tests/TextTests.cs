using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Tests;

// Texts that the library writes about failures, and their choice.
public sealed class TextTests
{
    public static TheoryData<CloseCause> Causes => [.. Enum.GetValues<CloseCause>()];

    [Theory]
    [MemberData(nameof(Causes))]
    public void Every_cause_has_a_sentence_of_its_own_and_a_category(CloseCause cause)
    {
        CloseReason reason = new(cause, 0, cause == CloseCause.UserException ? new FormatException("odd") : null);
        string text = reason.ToString();
        Assert.NotEmpty(text);
        Assert.DoesNotContain(Enum.GetValues<CloseCause>(),
            other => other != cause && new CloseReason(other).ToString() == text);
        Assert.Equal(text, reason.Error.Message);
        Assert.Equal(0, reason.Error.Code);
        bool isQuiet = cause is CloseCause.None or CloseCause.LocalClose or CloseCause.LocalAbort
            or CloseCause.PeerClosed or CloseCause.HandedOver or CloseCause.ServerStopped or CloseCause.EngineStopped;
        Assert.Equal(isQuiet, reason.Error.Category == ErrorCategory.None);
        if (reason.IsGraceful) Assert.Equal(ErrorCategory.None, reason.Error.Category);
    }

    [Theory]
    [InlineData(CloseCause.PeerClosed, CloseInitiator.Peer, true)]
    [InlineData(CloseCause.PeerReset, CloseInitiator.Peer, false)]
    [InlineData(CloseCause.LocalClose, CloseInitiator.Local, true)]
    [InlineData(CloseCause.LocalAbort, CloseInitiator.Local, false)]
    [InlineData(CloseCause.SlowConsumer, CloseInitiator.Library, false)]
    [InlineData(CloseCause.UnreadLimit, CloseInitiator.Library, false)]
    [InlineData(CloseCause.TimedOut, CloseInitiator.System, false)]
    [InlineData(CloseCause.ServerStopped, CloseInitiator.Local, true)]
    [InlineData(CloseCause.EngineStopped, CloseInitiator.Local, false)]
    public void A_reason_names_the_side_that_ended_and_whether_it_was_graceful(CloseCause cause,
        CloseInitiator initiator, bool isGraceful)
    {
        Assert.Equal(initiator, new CloseReason(cause).Initiator);
        Assert.Equal(isGraceful, new CloseReason(cause).IsGraceful);
    }

    [Theory]
    [InlineData(CloseCause.UnknownHost, ErrorCategory.UnknownHost)]
    [InlineData(CloseCause.Refused, ErrorCategory.Refused)]
    [InlineData(CloseCause.Unreachable, ErrorCategory.Unreachable)]
    [InlineData(CloseCause.TimedOut, ErrorCategory.Timeout)]
    [InlineData(CloseCause.Cancelled, ErrorCategory.Cancelled)]
    public void Each_failure_of_a_connect_has_its_own_category(CloseCause cause, ErrorCategory category) =>
        Assert.Equal(category, new CloseReason(cause).Error.Category);

    [Fact]
    public void A_reason_with_a_number_says_what_the_number_means()
    {
        string text = new CloseReason(CloseCause.PeerReset, Errno.ECONNRESET).ToString();
        Assert.Equal($"reset by the peer (error 104: {ErrorText.Of(Errno.ECONNRESET)})", text);
        Assert.Contains("Connection reset", text, StringComparison.Ordinal);
        Assert.Contains("odd", new CloseReason(CloseCause.UserException, 0, new FormatException("odd")).ToString(),
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("A file ended.", "A file ended")]
    [InlineData("Wait...", "Wait...")]
    [InlineData("", "")]
    public void A_reason_stands_inside_of_other_sentences(string message, string text)
    {
        Assert.EndsWith(text, new CloseReason(CloseCause.FileFailed, 0, new IOException(message)).ToString(),
            StringComparison.Ordinal);
        Assert.Equal(text, new CloseReason(CloseCause.PhaseTimeout, 0, new TimeoutException(message)).ToString());
        Assert.Equal(text, new CloseReason(CloseCause.SocketOption, 0, new TimeoutException(message)).ToString());
    }

    [Theory]
    [InlineData(Errno.ECONNRESET, CloseCause.PeerReset)]
    [InlineData(Errno.EPIPE, CloseCause.PeerReset)]
    [InlineData(Errno.ECONNABORTED, CloseCause.PeerReset)]
    [InlineData(Errno.ENOTCONN, CloseCause.PeerReset)]
    [InlineData(Errno.ETIMEDOUT, CloseCause.TimedOut)]
    [InlineData(Errno.ENETDOWN, CloseCause.Unreachable)]
    [InlineData(Errno.EHOSTDOWN, CloseCause.Unreachable)]
    [InlineData(Errno.EAFNOSUPPORT, CloseCause.Unreachable)]
    [InlineData(Errno.ECONNREFUSED, CloseCause.Refused)]
    [InlineData(Errno.ENOENT, CloseCause.Refused)]
    [InlineData(Errno.ENETUNREACH, CloseCause.Unreachable)]
    [InlineData(Errno.EHOSTUNREACH, CloseCause.Unreachable)]
    [InlineData(Errno.EADDRNOTAVAIL, CloseCause.Unreachable)]
    [InlineData(Errno.EMFILE, CloseCause.ResourceLimit)]
    [InlineData(Errno.ENFILE, CloseCause.ResourceLimit)]
    [InlineData(Errno.ENOMEM, CloseCause.ResourceLimit)]
    [InlineData(Errno.ENOBUFS, CloseCause.ResourceLimit)]
    [InlineData(Errno.ECANCELED, CloseCause.Cancelled)]
    [InlineData(Errno.EPROTO, CloseCause.SystemError)]
    [InlineData(9999, CloseCause.SystemError)]
    public void Error_numbers_have_their_causes(int errno, CloseCause expected) =>
        Assert.Equal(expected, ErrorText.CauseOf(errno));

    [Fact]
    public void Portable_errors_mean_what_the_Linux_numbers_mean()
    {
        Assert.Equal(0, ErrorText.ErrnoOf(SocketError.Success));
        foreach ((SocketError error, CloseCause cause) in new[]
        {
            (SocketError.ConnectionReset, CloseCause.PeerReset), (SocketError.Shutdown, CloseCause.PeerReset),
            (SocketError.ConnectionAborted, CloseCause.PeerReset),
            (SocketError.TimedOut, CloseCause.TimedOut), (SocketError.ConnectionRefused, CloseCause.Refused),
            (SocketError.HostUnreachable, CloseCause.Unreachable),
            (SocketError.NetworkUnreachable, CloseCause.Unreachable),
            (SocketError.TooManyOpenSockets, CloseCause.ResourceLimit),
            (SocketError.NoBufferSpaceAvailable, CloseCause.ResourceLimit),
            (SocketError.OperationAborted, CloseCause.Cancelled), (SocketError.Fault, CloseCause.SystemError),
        })
        {
            Assert.Equal(cause, ErrorText.CauseOf(ErrorText.ErrnoOf(error)));
        }
    }

    [Fact]
    public void All_mistakes_in_options_are_reported_together()
    {
        OptionErrors errors = new("SomeOptions");
        errors.Range("Low", 1, 1, 5);
        errors.Range("High", 5, 1, 5);
        errors.Range("Time", TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(2));
        errors.Defined("Policy", SlowConsumer.Wait);
        errors.ThrowIfAny();
        errors.Range("Low", 0, 1, 5);
        errors.Range("High", 6, 1, 5);
        errors.Range("Time", TimeSpan.FromSeconds(3), TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(2));
        errors.Defined("Policy", (SlowConsumer)77);
        errors.Add("one more");
        string message = Assert.Throws<ArgumentException>(errors.ThrowIfAny).Message;
        Assert.Contains("SomeOptions has 5 mistakes", message, StringComparison.Ordinal);
        foreach (string part in new[]
        {
            "Low = 0, allowed 1 to 5",
            "High = 6",
            "Time = 00:00:03",
            "Policy = 77, allowed Disconnect, DropNewest, Wait",
            "one more"
        })
            Assert.Contains(part, message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("epoll", EngineKind.Epoll)]
    [InlineData("EPOLL", EngineKind.Epoll)]
    [InlineData("Portable", EngineKind.Portable)]
    public void The_environment_variable_chooses_the_engine_when_the_options_do_not(string word, EngineKind expected)
    {
        Assert.SkipUnless(KernelProbe.HasEpoll || expected != EngineKind.Epoll, "This system has no epoll.");
        Assert.Equal(new EngineChoice(expected, "asked for by WHIMBREL_ENGINE"),
            EngineSelector.Choose(EngineKind.Auto, word));
    }

    [Theory]
    [InlineData(null)]
    [InlineData("")]
    [InlineData("auto")]
    public void Without_a_setting_the_best_engine_is_chosen(string? word)
    {
        EngineKind onLinux = UringProbe.Here.IsOffered ? EngineKind.Uring : EngineKind.Epoll;
        Assert.Equal(KernelProbe.HasEpoll ? onLinux : EngineKind.Portable,
            EngineSelector.Choose(EngineKind.Auto, word).Kind);
    }

    [Theory]
    [InlineData("kqueue")]
    [InlineData("1")]
    [InlineData("2")]
    [InlineData("-1")]
    [InlineData(" 1")]
    [InlineData("+1")]
    [InlineData("epoll,portable")]
    [InlineData("auto,epoll")]
    [InlineData("epoll ")]
    public void A_wrong_engine_name_is_refused_with_the_valid_ones(string word)
    {
        string message = Assert.Throws<ArgumentException>(() => EngineSelector.Choose(EngineKind.Auto, word)).Message;
        Assert.Equal($"WHIMBREL_ENGINE = '{word}', allowed auto, uring, epoll, portable.", message);
    }

    [Fact]
    public void The_engine_of_the_options_wins_over_the_environment()
    {
        Assert.Equal(new EngineChoice(EngineKind.Portable, "asked for by EngineOptions.Kind"),
            EngineSelector.Choose(EngineKind.Portable, "nonsense"));
    }

    [Theory]
    [InlineData("a\nb", @"a\nb")]
    [InlineData("a\r\tb", @"a\r\tb")]
    [InlineData("\u001b[2J\u0007", @"\u001b[2J\u0007")]
    [InlineData("\0\u007f\u0080\u009b", @"\u0000\u007f\u0080\u009b")]
    [InlineData("\u2028\u2029\u202a\u202e\u2066\u2069", @"\u2028\u2029\u202a\u202e\u2066\u2069")]
    [InlineData("plain, ümlaut \u00a0 \u2027 \u202f \u2065 \u206a \ud83d\ude00 C:\\new",
        "plain, ümlaut \u00a0 \u2027 \u202f \u2065 \u206a \ud83d\ude00 C:\\new")]
    public void Control_characters_of_foreign_values_are_escaped_in_diagnostic_events_errors_and_reasons(string foreign,
        string escaped)
    {
        Assert.Equal(escaped, new DiagnosticEvent(DiagnosticEventKind.System, foreign, "page.md").Message);
        Assert.Equal(escaped, (default(DiagnosticEvent) with { Message = foreign }).Message);
        Assert.Equal(escaped, new NetworkException(new NetworkError(0, ErrorCategory.System, foreign)).Message);
        Assert.Equal(escaped, (default(NetworkError) with { Message = foreign }).Message);
        Assert.Equal(escaped, new TlsException(TlsFailure.LocalFault, foreign).Message);
        Assert.Equal($"user code threw FormatException: {escaped}",
            new CloseReason(CloseCause.UserException, 0, new FormatException(foreign)).ToString());
        Assert.Contains(escaped, new CloseReason(CloseCause.UnknownHost, 0, new IOException(foreign)).ToString(),
            StringComparison.Ordinal);
        if (foreign != escaped)
            Assert.Contains(escaped,
                Assert.Throws<FormatException>(() => NetworkAddress.Parse($"tcp://{foreign}:-1")).Message,
                StringComparison.Ordinal);
    }

    [Fact]
    public void A_diagnostic_event_prints_its_message_and_names_its_page_and_the_command()
    {
        DiagnosticEvent notice = new(DiagnosticEventKind.System, "Something happened.", "port-taken.md");
        Assert.Equal("Something happened.", notice.ToString());
        Assert.Equal("See docs/symptoms/port-taken.md, or: whimbrel explain port-taken", notice.Help);
        Assert.Equal("Whimbrel: Something happened. See docs/symptoms/port-taken.md, or: whimbrel explain port-taken",
            StandardError.TextOf(notice));
    }

    [Fact]
    public void A_diagnostic_event_on_standard_error_has_the_stack_trace_and_no_line_that_a_value_forged()
    {
        Exception thrown = Assert.Throws<InvalidOperationException>(ThrowForeign);
        string[] lines = StandardError.TextOf(new DiagnosticEvent(DiagnosticEventKind.UserException,
            $"a timer threw {ErrorText.Of(thrown)}.", "user-exception.md", thrown)).Split('\n');
        Assert.StartsWith("Whimbrel: a timer threw InvalidOperationException: outer. See ", lines[0],
            StringComparison.Ordinal);
        Assert.Equal("   InvalidOperationException: outer", lines[1]);
        Assert.Contains(lines[2..], static l => l.StartsWith("      at ", StringComparison.Ordinal)
            && l.Contains(nameof(ThrowForeign), StringComparison.Ordinal));
        Assert.Contains(@"   caused by FormatException: x\nWhimbrel: forged\u001b[2J", lines);
        Assert.All(lines[1..], static l => Assert.StartsWith("   ", l, StringComparison.Ordinal));
    }

    private static void ThrowForeign()
    {
        try
        {
            throw new FormatException("x\nWhimbrel: forged\u001b[2J.");
        }
        catch (FormatException e)
        {
            throw new InvalidOperationException("outer.", e);
        }
    }

    [Fact]
    public void A_quoted_message_has_no_full_stop_and_one_mistake_is_singular()
    {
        Assert.Equal("FormatException: odd", ErrorText.Of(new FormatException("odd.")));
        Assert.Equal("FormatException: and so on...", ErrorText.Of(new FormatException("and so on...")));
        OptionErrors errors = new("SomeOptions");
        errors.Add("it is odd.");
        Assert.Equal("SomeOptions has 1 mistake: it is odd.",
            Assert.Throws<ArgumentException>(errors.ThrowIfAny).Message);
    }

    [Fact]
    public void A_taken_port_names_its_holder()
    {
        Assert.SkipUnless(Directory.Exists("/proc/net"), "This system has no /proc.");
        using Socket holder = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        holder.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        holder.Listen(1);
        NetworkError error = BindError.Describe(holder.LocalEndPoint!, Errno.EADDRINUSE);
        Assert.Equal((Errno.EADDRINUSE, ErrorCategory.Bind), (error.Code, error.Category));
        Assert.Contains($"Cannot listen on {holder.LocalEndPoint}: already in use by '", error.Message,
            StringComparison.Ordinal);
        Assert.Contains($"(pid {Environment.ProcessId})", error.Message, StringComparison.Ordinal);
        Assert.Contains("docs/symptoms/port-taken.md", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_taken_port_of_IPv4_names_a_holder_that_listens_at_IPv6_for_both()
    {
        Assert.SkipUnless(Directory.Exists("/proc/net") && Socket.OSSupportsIPv6, "The test needs /proc and IPv6.");
        using Socket holder =
            new(AddressFamily.InterNetworkV6, SocketType.Stream, ProtocolType.Tcp) { DualMode = true };
        holder.Bind(new IPEndPoint(IPAddress.IPv6Any, 0));
        holder.Listen(1);
        int port = ((IPEndPoint)holder.LocalEndPoint!).Port;
        foreach (IPAddress address in (IPAddress[])[IPAddress.Loopback, IPAddress.IPv6Loopback])
            Assert.Contains($"(pid {Environment.ProcessId})",
                BindError.Describe(new IPEndPoint(address, port), Errno.EADDRINUSE).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_taken_port_names_another_process_that_has_it()
    {
        Assert.SkipUnless(Directory.Exists("/proc/net"), "This system has no /proc.");
        ProcessStartInfo start = new("python3", ["-c", "import socket, sys; s = socket.create_server(('127.0.0.1', "
            + "0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
        };
        Process? process = null;
        try
        {
            process = Process.Start(start)!;
        }
        catch (System.ComponentModel.Win32Exception)
        {
            Assert.Skip("The test needs python3.");
        }

        using (process)
        {
            try
            {
                int port = int.Parse(process.StandardOutput.ReadLine()!, CultureInfo.InvariantCulture);
                string message = BindError.Describe(new IPEndPoint(IPAddress.Loopback, port), Errno.EADDRINUSE).Message;
                Assert.Matches(@"already in use by 'python3[.\d]*' \(pid \d+\)\. ", message);
                Assert.DoesNotContain($"(pid {Environment.ProcessId})", message, StringComparison.Ordinal);
            }
            finally
            {
                process.StandardInput.Close();
                process.WaitForExit();
            }
        }
    }

    [Theory]
    [InlineData(Errno.EACCES, "privilege")]
    [InlineData(Errno.EADDRNOTAVAIL, "none of this machine's")]
    [InlineData(Errno.ENOENT, "folder")]
    [InlineData(Errno.EMFILE, "descriptor-limit.md")]
    [InlineData(Errno.EPROTO, "Protocol error")]
    public void A_bind_that_fails_says_why(int errno, string part)
    {
        Assert.Contains(part, BindError.Describe(new UnixDomainSocketEndPoint("/nowhere/x"), errno).Message,
            StringComparison.Ordinal);
    }
}

using System.Buffers;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests.Calls;

// A call completes exactly once, for one reason, whatever the server, the clock, tokens, limits and the connection do.
public sealed class CallClientTests
{
    private static readonly TimeSpan s_second = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_ms = TimeSpan.FromMilliseconds(1);

    [Fact]
    public void Answers_find_their_calls_in_whatever_order_they_come()
    {
        using CallRig rig = new CallRig().Connected();
        Task<string>[] calls = [rig.Call("one"), rig.Call("two"), rig.Call("three")];
        List<(ulong Id, string Body)> requests = rig.Requests();
        Assert.Equal(["one", "two", "three"], requests.Select(static r => r.Body));
        Assert.Equal(3, rig.Client.CallsInFlight);
        foreach ((ulong id, string body) in Enumerable.Reverse(requests)) rig.Answer(id, body + "!");
        Assert.Equal(["one!", "two!", "three!"], calls.Select(CallRig.ResultOf));
        Assert.Equal(0, rig.Client.CallsInFlight);
    }

    [Fact]
    public void A_request_is_length_id_and_body_and_an_answer_may_come_byte_by_byte()
    {
        using CallRig rig = new CallRig().Connected();
        rig.Peer.SplitEveryByte = true;
        Task<string> call = rig.Call("hello");
        Assert.Equal([0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 1, .. "hello"u8], rig.Peer.Receive());
        rig.Answer(1, "");
        Assert.Equal("", CallRig.ResultOf(call));
    }

    [Fact]
    public void A_call_ends_after_its_time_and_not_before_and_a_late_answer_is_counted()
    {
        using CallRig rig = new CallRig(new CallOptions { Timeout = 5 * s_second }).Connected();
        Task<string> usual = rig.Call("usual"), shorter = rig.Call("shorter", s_second),
            patient = rig.Call("patient", Timeout.InfiniteTimeSpan);
        rig.Network.Advance(s_second - s_ms);
        Assert.False(shorter.IsCompleted);
        rig.Network.Advance(3 * s_ms);
        CallException failure = CallRig.FailureOf(shorter);
        Assert.Equal(CallFailure.Timeout, failure.Failure);
        Assert.True(failure.MayHaveBeenHandled);
        Assert.False(usual.IsCompleted);
        rig.Answer(2, "too late");
        Assert.Equal((1, 0), (rig.Client.LateAnswers, rig.Client.UnknownAnswers));
        rig.Network.Advance(5 * s_second);
        Assert.Equal(CallFailure.Timeout, CallRig.FailureOf(usual).Failure);
        rig.Network.Advance(TimeSpan.FromHours(1));
        rig.Answer(3, "at last");
        Assert.Equal("at last", CallRig.ResultOf(patient));
    }

    [Theory]
    [InlineData("220 welcome\r\n", "look like text: does the peer send lines or HTTP?")]
    [InlineData("\0\0\0\b\0\0\0\0\0\0\0\u0009", "an answer came to a call with the id 9, which was not sent")]
    public void A_server_of_another_protocol_is_named_by_a_diagnostic_event_and_by_the_calls(string sent,
        string expected)
    {
        List<DiagnosticEvent> notices = [];
        using TestNetwork network = new();
        CallClient client = new(
            new ClientOptions
            {
                Engine = network.Engine,
                EndPoint = network.NewEndPoint(),
                OnDiagnosticEvent = notices.Add
            },
            calls: new CallOptions { StrayAnswers = StrayAnswers.ResetOnUnknown });
        TestPeer peer = network.Accept(client);
        Task inFlight = client.CallAsync("x"u8.ToArray()).AsTask();
        peer.Send(sent);
        Assert.True(peer.IsReset);
        CallException lost = Assert.IsType<CallException>(inFlight.Exception!.InnerException);
        Assert.Equal((CallFailure.ConnectionLost, CloseCause.ProtocolError), (lost.Failure, lost.CloseReason.Cause));
        Assert.Contains(expected, lost.Message, StringComparison.Ordinal);
        CallException next =
            Assert.IsType<CallException>(client.CallAsync("x"u8.ToArray()).AsTask().Exception!.InnerException);
        Assert.Equal((CallFailure.NotSent, CloseCause.ProtocolError), (next.Failure, next.CloseReason.Cause));
        Assert.Contains(expected, next.Message, StringComparison.Ordinal);
        Assert.Contains("Await ConnectAsync again", next.Message, StringComparison.Ordinal);
        DiagnosticEvent notice = Assert.Single(notices);
        Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"), (notice.Kind, notice.Page));
        Assert.StartsWith("CallClient (session ", notice.Message, StringComparison.Ordinal);
        Assert.Contains(expected, notice.Message, StringComparison.Ordinal);
    }

    [Fact] // also where no other call waits for its own
    public void Each_call_ends_after_its_time()
    {
        using CallRig rig = new CallRig().Connected();
        for (int i = 0; i < 5; i++)
        {
            Task<string> call = rig.Call("late", s_second);
            rig.Network.Advance(s_second - s_ms);
            Assert.False(call.IsCompleted);
            rig.Network.Advance(3 * s_ms);
            Assert.Equal(CallFailure.Timeout, CallRig.FailureOf(call).Failure);
        }
    }

    [Fact]
    public void A_call_that_an_ending_connection_did_not_take_keeps_its_place_before_those_that_wait()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }, reconnects: true).Connected();
        using CancellationTokenSource first = new();
        Task<string> sent = rig.Call("sent", token: first.Token);
        Task<string>[] waiting = [rig.Call("a"), rig.Call("b"), rig.Call("c")];
        rig.Peer.OnLoop(() =>
        {
            rig.Peer.Session.Abort();
            first.Cancel(); // which makes room for the next one
        });
        Assert.True(sent.IsCanceled);
        rig.Connected();
        foreach ((Task<string> call, string body) in waiting.Zip(["a", "b", "c"]))
        {
            (ulong id, string request) = Assert.Single(rig.Requests());
            Assert.Equal(body, request);
            rig.Answer(id, body);
            Assert.Equal(body, CallRig.ResultOf(call));
        }
    }

    [Fact] // a pool that gets nothing back allocates for each call
    public async Task The_memory_of_each_large_answer_is_returned_when_its_loan_ends()
    {
        using CallRig rig = new CallRig().Connected();
        for (int i = 0; i < 3; i++)
        {
            Task<CallAnswer> call = rig.Client.CallAsync("large"u8.ToArray()).AsTask();
            rig.Answer(Assert.Single(rig.Requests()).Id, new string('x', 50_000));
            CallAnswer answer = await call;
            Assert.True(MemoryMarshal.TryGetArray(answer.Memory, out ArraySegment<byte> segment));
            answer.Dispose();
            byte[] again = ArrayPool<byte>.Shared.Rent(50_000); // what this thread returned last
            Assert.Same(segment.Array, again);
            ArrayPool<byte>.Shared.Return(again);
        }
    }

    [Fact]
    public void A_cancelled_call_ends_at_once_and_makes_room()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }).Connected();
        using CancellationTokenSource first = new(), second = new();
        Task<string> sent = rig.Call("sent", token: first.Token), waiting = rig.Call("waiting", token: second.Token),
            last = rig.Call("last");
        second.Cancel();
        first.Cancel();
        rig.Network.Run();
        Assert.True(sent.IsCanceled);
        Assert.True(waiting.IsCanceled);
        Assert.Equal(first.Token,
            Assert.ThrowsAny<OperationCanceledException>(() => sent.GetAwaiter().GetResult()).CancellationToken);
        // The queued call was never sent, and the response to the sent call is dropped.
        Assert.Equal(["sent", "last"], rig.Requests().Select(static r => r.Body));
        rig.Answer(1, "late");
        rig.Answer(2, "fine");
        Assert.Equal("fine", CallRig.ResultOf(last));
        Assert.Equal(1, rig.Client.LateAnswers);
        Assert.True(rig.Client.CallAsync(default, null, new CancellationToken(true)).IsCanceled);
    }

    [Theory]
    [InlineData(2, 1000)]
    [InlineData(100, 6)]
    public void At_the_limit_calls_wait_in_order_and_above_that_are_refused(int limit, int limitBytes)
    {
        using CallRig rig = new CallRig(
            new CallOptions { InFlightLimit = limit, InFlightLimitBytes = limitBytes, WaitingLimit = 2 }).Connected();
        Task<string>[] calls = [rig.Call("one"), rig.Call("two"), rig.Call("six"), rig.Call("ten"), rig.Call("no!")];
        Assert.Equal((2, 2), (rig.Client.CallsInFlight, rig.Client.CallsWaiting));
        CallException refused = CallRig.FailureOf(calls[4]);
        Assert.Equal(CallFailure.Full, refused.Failure);
        Assert.False(refused.MayHaveBeenHandled);
        Assert.Equal(["one", "two"], rig.Requests().Select(static r => r.Body));
        rig.Answer(2, "2");
        Assert.Equal(["six"], rig.Requests().Select(static r => r.Body));
        rig.Answer(1, "1");
        rig.Answer(3, "3");
        rig.Answer(4, "4");
        Assert.Equal(["1", "2", "3", "4"], calls[..4].Select(CallRig.ResultOf));
    }

    [Fact]
    public void A_request_above_the_limit_goes_alone()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimitBytes = 4 }).Connected();
        Task<string> small = rig.Call("a"), large = rig.Call("larger than four"), next = rig.Call("b");
        Assert.Equal(["a"], rig.Requests().Select(static r => r.Body));
        rig.Answer(1, "a");
        Assert.Equal(["larger than four"], rig.Requests().Select(static r => r.Body));
        rig.Answer(2, "large");
        rig.Answer(3, "b");
        Assert.Equal(["a", "large", "b"], new[] { small, large, next }.Select(CallRig.ResultOf));
    }

    [Fact]
    public void A_late_answer_is_not_taken_for_the_call_that_has_its_place()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }).Connected();
        for (int i = 0; i < 8; i++) Assert.True(Cancelled(rig).IsCanceled);
        Task<string> last = rig.Call("last");
        for (ulong late = 1; late <= 8; late++) rig.Answer(late, "late");
        Assert.False(last.IsCompleted);
        Assert.Equal((8, 0), (rig.Client.LateAnswers, rig.Client.UnknownAnswers));
        rig.Answer(9, "fine");
        Assert.Equal("fine", CallRig.ResultOf(last));
    }

    [Fact]
    public void A_small_call_does_not_overtake_a_large_one_that_waits()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimitBytes = 10 }).Connected();
        rig.Call("12345");
        rig.Call("large enough to wait");
        rig.Call("1");
        Assert.Equal(["12345"], rig.Requests().Select(static r => r.Body));
        Assert.Equal(2, rig.Client.CallsWaiting);
    }

    [Fact]
    public void A_call_that_was_only_queued_was_not_handled()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }).Connected();
        Task<string> sent = rig.Call("sent"), waiting = rig.Call("waiting", s_second);
        rig.Network.Advance(2 * s_second);
        CallException failure = CallRig.FailureOf(waiting);
        Assert.Equal(CallFailure.Timeout, failure.Failure);
        Assert.False(failure.MayHaveBeenHandled);
        rig.Answer(1, "fine");
        Assert.Equal("fine", CallRig.ResultOf(sent));
        Assert.Single(rig.Requests());
    }

    [Fact]
    public void Calls_in_flight_fail_with_their_connection_and_queued_ones_use_the_next()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }, reconnects: true).Connected();
        Task<string> sent = rig.Call("sent"), waiting = rig.Call("waiting");
        rig.Peer.Reset();
        CallException lost = CallRig.FailureOf(sent);
        Assert.Equal(CallFailure.ConnectionLost, lost.Failure);
        Assert.True(lost.MayHaveBeenHandled);
        Assert.False(waiting.IsCompleted);
        Task<string> meanwhile = rig.Call("meanwhile");
        rig.Connected();
        // Ids continue: a response of the old connection must not match a call of the new one.
        Assert.Equal([(2, "waiting")], rig.Requests());
        rig.Answer(2, "w");
        rig.Answer(1, "an id of the connection before");
        Assert.Equal((0, 1), (rig.Client.LateAnswers, rig.Client.UnknownAnswers));
        rig.Answer(3, "m");
        Assert.Equal(["w", "m"], new[] { waiting, meanwhile }.Select(CallRig.ResultOf));
    }

    [Fact]
    public void Without_a_connection_that_comes_a_call_is_not_sent()
    {
        using CallRig rig = new(new CallOptions { InFlightLimit = 1 });
        Assert.Equal(CallFailure.NotSent, CallRig.FailureOf(rig.Call("before")).Failure);
        Assert.Equal(SendResult.Closed, rig.Client.Push("before"u8));
        rig.Connected();
        Task<string> sent = rig.Call("sent"), waiting = rig.Call("waiting");
        rig.Peer.Close();
        Assert.Equal(CallFailure.ConnectionLost, CallRig.FailureOf(sent).Failure);
        CallException failure = CallRig.FailureOf(waiting);
        Assert.Equal(CallFailure.NotSent, failure.Failure);
        Assert.False(failure.MayHaveBeenHandled);
        Assert.Equal(CallFailure.NotSent, CallRig.FailureOf(rig.Call("after")).Failure);
        Assert.Equal(0, rig.Client.CallsWaiting);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_disconnect_in_the_middle_ends_all_calls(bool isBetweenConnects)
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 1 }, reconnects: true).Connected();
        Task<string> sent = rig.Call("sent"), waiting = rig.Call("waiting");
        if (isBetweenConnects) rig.Peer.Reset();
        ValueTask ended = rig.Client.DisconnectAsync();
        rig.Network.Run();
        if (!isBetweenConnects) rig.Peer.Close();
        Assert.True(ended.IsCompleted);
        Assert.Equal(CallFailure.ConnectionLost, CallRig.FailureOf(sent).Failure);
        Assert.Equal(CallFailure.NotSent, CallRig.FailureOf(waiting).Failure);
    }

    [Fact]
    public void A_call_while_the_connection_closes_waits_for_the_next_one()
    {
        using CallRig rig = new CallRig(reconnects: true).Connected();
        Session closing = rig.Peer.Session;
        Task<string>? call = null;
        rig.Peer.OnLoop(() =>
        {
            closing.Close();
            call = rig.Begin("while closing");
        });
        Assert.False(call!.IsCompleted);
        rig.Peer.Close();
        rig.Connected();
        Assert.Equal([(2, "while closing")], rig.Requests());
        rig.Answer(2, "fine");
        Assert.Equal("fine", CallRig.ResultOf(call));
    }

    [Theory]
    [InlineData(StrayAnswers.Ignore, false, false)]
    [InlineData(StrayAnswers.ResetOnUnknown, false, true)]
    [InlineData(StrayAnswers.ResetOnAny, true, true)]
    public void Unexpected_answers_are_counted_or_reset_the_connection(StrayAnswers rule, bool resetsOnLate,
        bool resetsOnUnknown)
    {
        foreach (bool isLate in new[] { true, false })
        {
            using CallRig rig = new CallRig(new CallOptions { StrayAnswers = rule }).Connected();
            Task<string> call = rig.Call("one");
            rig.Answer(1, "1");
            Assert.Equal("1", CallRig.ResultOf(call));
            rig.Answer(isLate ? 1ul : 2, "again");
            Assert.Equal(isLate ? (1, 0) : (0, 1), (rig.Client.LateAnswers, rig.Client.UnknownAnswers));
            Assert.Equal(isLate ? resetsOnLate : resetsOnUnknown, rig.Peer.IsReset);
        }
    }

    [Fact]
    public void Pushes_go_both_ways_beside_calls()
    {
        using CallRig rig = new CallRig().Connected();
        Task<string> call = rig.Call("one");
        rig.Answer(0, "news");
        Assert.Equal(SendResult.Queued, rig.Client.Push("for you"u8));
        rig.Network.Run();
        Assert.Equal([(1, "one"), (0, "for you")], rig.Requests());
        rig.Answer(1, "fine");
        Assert.Equal(["news"], rig.Client.Pushes);
        Assert.Equal("fine", CallRig.ResultOf(call));
    }

    [Fact]
    public void A_push_that_throws_ends_the_connection_and_the_client_lives()
    {
        using CallRig rig = new CallRig().Connected();
        rig.Network.RethrowsExceptions = false;
        rig.Client.WhenPushed = static _ => throw new InvalidDataException("user");
        Task<string> call = rig.Call("one");
        rig.Answer(0, "news");
        Assert.Equal(CallFailure.ConnectionLost, CallRig.FailureOf(call).Failure);
        Assert.IsType<InvalidDataException>(Assert.Single(rig.Network.Exceptions));
        rig.Connected();
        call = rig.Call("two");
        rig.Answer(2, "fine");
        Assert.Equal("fine", CallRig.ResultOf(call));
    }

    [Fact]
    public void Bytes_that_are_no_answer_reset_the_connection()
    {
        using CallRig rig = new CallRig().Connected();
        Task<string> call = rig.Call("one");
        rig.Peer.Send([0, 0, 0, 3, 1, 2, 3]);
        Assert.True(rig.Peer.IsReset);
        Assert.Equal(CloseCause.ProtocolError, rig.Peer.CloseReason!.Value.Cause);
        Assert.Equal(CallFailure.ConnectionLost, CallRig.FailureOf(call).Failure);
    }

    [Fact]
    public void A_request_that_the_format_cannot_say_fails_alone()
    {
        using CallRig rig =
            new CallRig(new CallOptions { InFlightLimit = 1 }, CallFormat.LengthPrefix(limitBytes: 5)).Connected();
        Task<string> good = rig.Call("12345"), bad = rig.Call("123456"), next = rig.Call("next");
        rig.Answer(1, "1");
        Assert.IsType<ArgumentException>(bad.Exception!.InnerException);
        // It had an id for a moment.
        rig.Answer(3, "3");
        Assert.Equal(("1", "3"), (CallRig.ResultOf(good), CallRig.ResultOf(next)));
        Assert.Equal(0, rig.Client.CallsInFlight);
    }

    [Fact]
    public void Ids_of_a_small_format_wrap_around_and_skip_those_in_flight()
    {
        using CallRig rig = new CallRig(new CallOptions { InFlightLimit = 128 }, new Numbers()).Connected();
        Task<string> patient = rig.Call("patient");
        Assert.Equal("1 patient\n", rig.Peer.ReceiveText());
        for (int i = 0; i < 600; i++)
        {
            Task<string> call = rig.Call("q");
            string request = rig.Peer.ReceiveText();
            Assert.Equal($"{((i + 1) % 254) + (i % 254 == 253 ? 254 : 0) + 1} q\n", request);
            rig.Peer.Send(request.Replace("q", "a", StringComparison.Ordinal));
            Assert.Equal("a", CallRig.ResultOf(call));
        }

        rig.Peer.Send("1 at last\n- pushed\n");
        Assert.Equal("at last", CallRig.ResultOf(patient));
        Assert.Equal(["pushed"], rig.Client.Pushes);
        rig.Peer.Send("x\n");
        Assert.True(rig.Peer.IsReset);
    }

    [Fact]
    public void A_request_for_which_the_queue_has_no_room_is_sent_when_there_is()
    {
        using CallRig rig = new CallRig(sendLimitBytes: 4096).Connected();
        rig.Peer.IsReading = false;
        byte[] filler = CallRig.FrameOf(9, new string('-', 1000));
        rig.Peer.OnLoop(() =>
        {
            while (rig.Peer.Session.Send(filler) == SendResult.Queued)
            {
            }
        });
        using CancellationTokenSource cancel = new();
        Task<string> call = rig.Call(new string('x', 500)),
            cancelled = rig.Call(new string('y', 500), token: cancel.Token);
        Assert.Equal(2, rig.Client.CallsInFlight);
        cancel.Cancel();
        rig.Network.Run();
        Assert.True(cancelled.IsCanceled);
        rig.Peer.IsReading = true;
        rig.Network.Run();
        (ulong id, string body) = rig.Requests().First(static r => r.Body.StartsWith('x'));
        Assert.Equal(500, body.Length);
        rig.Answer(id, "fine");
        Assert.Equal("fine", CallRig.ResultOf(call));
    }

    [Fact]
    public void An_answer_is_on_loan_until_it_is_disposed()
    {
        using CallRig rig = new CallRig().Connected();
        foreach (int length in new[] { 10, 50_000 })
        {
            CallAnswer first = Answered(rig, 'a', length);
            CallAnswer second = Answered(rig, 'b', length);
            Assert.Equal(new string('a', length), Encoding.UTF8.GetString(first.Span));
            first.Dispose();
            Assert.Throws<ObjectDisposedException>(() => first.Memory);
            // The next call uses the memory; a second disposal must not release it.
            CallAnswer third = Answered(rig, 'c', length);
            first.Dispose();
            CallAnswer fourth = Answered(rig, 'd', length);
            Assert.Equal(new string('b', length), Encoding.UTF8.GetString(second.Span));
            Assert.Equal(new string('c', length), Encoding.UTF8.GetString(third.Span));
            Assert.Equal(new string('d', length), Encoding.UTF8.GetString(fourth.Span));
            second.Dispose();
            third.Dispose();
            fourth.Dispose();
        }
    }

    [Fact]
    public void An_await_on_a_loop_resumes_there_in_an_iteration_of_its_own_after_a_call()
    {
        using CallRig rig = new CallRig().Connected();
        bool isOnLoop = false, isInside = false, wasInside = true;
        rig.Client.WhenPushed = _ => isInside = false;
        rig.Peer.OnLoop(() => _ = AskAsync());
        // The response and a push arrive in one block: the continuation runs after both.
        isInside = true;
        rig.Peer.Send([.. CallRig.FrameOf(1, "fine"), .. CallRig.FrameOf(0, "last")]);
        Assert.True(isOnLoop);
        Assert.False(wasInside);

        async Task AskAsync()
        {
            using CallAnswer answer = await rig.Client.CallAsync("one"u8.ToArray());
            isOnLoop = rig.Peer.Session.Loop.IsCurrent;
            wasInside = isInside;
        }
    }

    [Fact]
    public void Limits_that_make_no_sense_are_refused()
    {
        ClientOptions options = new() { Address = "tcp://localhost:1" };
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new CallClient(options, calls: new CallOptions { InFlightLimit = 0 }));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new CallClient(options, new Numbers(), new CallOptions { InFlightLimit = 129 }));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new CallClient(options, calls: new CallOptions { InFlightLimitBytes = 0 }));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new CallClient(options, calls: new CallOptions { WaitingLimit = -1 }));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new CallClient(options, calls: new CallOptions { Timeout = TimeSpan.Zero }));
        Assert.Throws<ArgumentOutOfRangeException>(() => CallFormat.LengthPrefix(0));
        CallClient client = new(options);
        Assert.Throws<ArgumentOutOfRangeException>(() => client.CallAsync(default, TimeSpan.Zero));
    }

    private static Task<string> Cancelled(CallRig rig)
    {
        using CancellationTokenSource cancel = new();
        Task<string> call = rig.Call("given up", token: cancel.Token);
        cancel.Cancel();
        rig.Network.Run();
        return call;
    }

    private static CallAnswer Answered(CallRig rig, char letter, int length)
    {
        ValueTask<CallAnswer> call = rig.Client.CallAsync(default);
        rig.Network.Run();
        rig.Answer(rig.Requests()[^1].Id, new string(letter, length));
        return call.GetAwaiter().GetResult();
    }
}

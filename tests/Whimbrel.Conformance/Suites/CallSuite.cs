using System.Globalization;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>Calls and responses between a <see cref="CallClient"/> and <see cref="CallSession"/>s: each completes once,
/// with its own response or the cause of its failure.</summary>
public abstract class CallSuite(Transport transport) : TrafficSuite(transport)
{
    private const int Callers = 4;

    [Fact, Contract(5, 6)]
    public void Calls_of_many_threads_get_their_own_answers_in_whatever_order_those_come() => Run(rig =>
    {
        int rounds = rig.IsVirtual ? 20 : 100;
        CallClient client = MakeClient(rig, static () => new Asked(),
            new CallOptions { InFlightLimit = 3, InFlightLimitBytes = 40_000 });
        Task<int>[] callers = Start(rig, caller => AskAsync(client, caller, rounds));
        Assert.Equal(Callers * rounds, callers.Sum(c => Await(rig, c)));
        Assert.Equal((0, 0), (client.CallsInFlight, client.CallsWaiting));
        Assert.Equal((0, 0), (client.LateAnswers, client.UnknownAnswers));
        rig.Await(client.DisposeAsync());
    });

    [Fact, Contract(1, 5)]
    public void Connections_reset_in_the_middle_end_the_calls_in_flight_and_the_next_ones_continue() => Run(rig =>
    {
        int rounds = rig.IsVirtual ? 10 : 30, lost = 0;
        ReconnectPolicy policy =
            new() { InitialDelay = TimeSpan.FromMilliseconds(1), Factor = 1, ResetAfter = TimeSpan.Zero };
        CallClient client = MakeClient(rig, static () => new Asked { Patience = 25 },
            new CallOptions { InFlightLimit = 8 }, policy);
        Task<int>[] callers = Start(rig, caller => AskAsync(client, caller, rounds, failure =>
        {
            // An unsent call waits for the next connection.
            Assert.Equal((CallFailure.ConnectionLost, true), (failure.Failure, failure.MayHaveBeenHandled));
            Interlocked.Increment(ref lost);
        }));
        int answered = callers.Sum(c => Await(rig, c));
        Assert.Equal(Callers * rounds, answered + lost);
        Assert.True(lost > 0, "no call was in flight at a reset");
        rig.Await(client.DisposeAsync());
        Assert.Equal((0, 0), (client.CallsInFlight, client.CallsWaiting));
    });

    [Fact, Contract(5, 6)]
    public void Calls_that_are_cancelled_or_late_never_see_each_others_answers() => Run(rig =>
    {
        int rounds = rig.IsVirtual ? 30 : 100, given = 0;
        CallClient client = MakeClient(rig, static () => new Asked { IsForgetful = true },
            new CallOptions { InFlightLimit = 2 });
        Task<int>[] callers = Start(rig, async caller =>
        {
            int answered = 0;
            for (int i = 0; i < rounds; i++)
            {
                using CancellationTokenSource cancel = new();
                Task<int> call = AskAsync(client, (1000 * caller) + i, 1, Count, TimeSpan.FromMilliseconds(1 + (i % 4)),
                    i % 3 == 0 ? cancel.Token : default);
                if (i % 2 == 0) cancel.Cancel();
                answered += await call.ConfigureAwait(false);
            }

            return answered;
        });
        int total = callers.Sum(c => Await(rig, c));
        Assert.Equal(Callers * rounds, total + given);
        Assert.Equal((0, 0), (client.CallsInFlight, client.CallsWaiting));
        Assert.Equal(0, client.UnknownAnswers);
        rig.Await(client.DisposeAsync());

        void Count(CallException? failure)
        {
            if (failure is not null) Assert.Equal(CallFailure.Timeout, failure.Failure);
            Interlocked.Increment(ref given);
        }
    });

    private static CallClient MakeClient(Rig rig, Func<Session> factory, CallOptions calls,
        ReconnectPolicy? policy = null)
    {
        Server server = rig.Keep(
            new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }), factory));
        rig.Await(server.StartAsync());
        CallClient client = new(rig.Scheduled(
            new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint, Reconnect = policy }), calls: calls);
        rig.Await(client.ConnectAsync());
        return client;
    }

    private static Task<int>[] Start(Rig rig, Func<int, Task<int>> caller) =>
        [.. Enumerable.Range(0, Callers).Select(i => StartElsewhere(rig, () => new ValueTask<int>(caller(i))))];

    /// <summary>Sequential calls; returns the number of responses. The body contains the caller's number, and has any
    /// length.</summary>
    private static async Task<int> AskAsync(CallClient client, int caller, int rounds,
        Action<CallException>? failed = null, TimeSpan? timeout = null, CancellationToken token = default)
    {
        int answered = 0;
        for (int i = 0; i < rounds; i++)
        {
            byte[] request = Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                $"{caller} {i} {new string('x', i * 977 % 20_000)}"));
            try
            {
                using CallAnswer answer = await client.CallAsync(request, timeout, token).ConfigureAwait(false);
                Assert.True(answer.Span.SequenceEqual(request), "another call's answer");
                answered++;
            }
            catch (CallException e) when (failed is not null)
            {
                failed(e);
            }
            catch (OperationCanceledException) when (failed is not null)
            {
                failed(null!);
            }
        }

        return answered;
    }

    /// <summary>Responds to every second call first, so that responses are reordered.</summary>
    private sealed class Asked() : CallSession(CallFormat.LengthPrefix())
    {
        private readonly List<(ulong Id, byte[] Request)> _held = [];
        private int _calls;

        /// <summary>Number of calls after which it resets.</summary>
        internal int Patience { get; init; } = int.MaxValue;

        /// <summary>Each fifth call is only answered together with the next one.</summary>
        internal bool IsForgetful { get; init; }

        protected override void OnCall(ulong id, ReadOnlySpan<byte> request)
        {
            if (++_calls > Patience)
            {
                Abort();
                return;
            }

            _held.Add((id, request.ToArray()));
            if (_held.Count == 1 && (IsForgetful ? _calls % 5 == 0 : _calls % 2 == 0) && Post(AnswerAll)) return;
            AnswerAll();
        }

        private void AnswerAll()
        {
            for (int i = _held.Count - 1; i >= 0; i--) Answer(_held[i].Id, _held[i].Request);
            _held.Clear();
        }
    }
}

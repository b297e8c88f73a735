using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading.Tasks.Sources;
using Whimbrel.Http;

namespace Whimbrel.Allocations;

// Memory cost of a request with a handler that suspends and resumes on a pool thread while handlers of other
// connections do the same: a cache of one object per thread does not help here.
public sealed class HttpWaitingTests
{
    private const int Connections = 32;
    private const int Many = 200;
    private const int Rounds = 60; // of one request on each connection
    // Of the handler below: the state object of an async method that suspends, which belongs to the user; the response
    // in it takes 16 bytes.
    private const int StateBytes = 112;

    private static readonly byte[] s_request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray();
    private static readonly byte[] s_text = "hello"u8.ToArray();

    public static TheoryData<string> Engines => Rig.Engines;

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_handler_that_waits_for_the_pool_costs_nothing_but_its_own_state(string engine)
    {
        ConditionalWeakTable<HttpSession, Work> works = [];
        With(engine, Scheduling.Inline,
            (request, response, _) => works.GetOrCreateValue(request.Session).WaitAsync(response),
            static (meter, round) =>
                meter.ExpectNoneAnywhere($"{Connections} requests that wait for the pool", Rounds, round));
    }

    // Fewer than one object per three requests, because pool threads are added meanwhile.
    [Theory]
    [MemberData(nameof(Engines))]
    public void A_waiting_handler_of_a_pool_session_allocates_nothing_but_its_own_state(string engine)
    {
        ConditionalWeakTable<HttpSession, Work> works = [];
        With(engine, Scheduling.ThreadPool,
            (request, response, _) => works.GetOrCreateValue(request.Session).WaitAsync(response),
            static (meter, round) =>
                meter.ExpectNoneAnywhere($"{Connections} requests of sessions on the pool that wait for it", Rounds,
                    round, fewerThan: Connections / 3));
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_async_method_that_waits_costs_the_object_of_its_state_and_no_other(string engine)
    {
        With(engine, Scheduling.Inline, static (_, response, _) => YieldAsync(response), static (meter, round) =>
        {
            double bytes = meter.BytesPerRound(Rounds, Rounds, round) / Connections;
            string line = string.Create(CultureInfo.InvariantCulture, $"{bytes:0.#} bytes allocated for each request "
                + $"on the loop's thread, {StateBytes} of them by the handler");
            TestContext.Current.TestOutputHelper!.WriteLine(line);
            Assert.True(bytes < StateBytes + 1, line);
        });
    }

    // All requests are concurrent: the first response is sent after the last request has arrived.
    [Theory]
    [MemberData(nameof(Engines))]
    public void Two_hundred_concurrent_requests_reuse_the_memory_of_earlier_ones(string engine)
    {
        ConditionalWeakTable<HttpSession, Work> works = [];
        Lock gate = new();
        List<Work> waiting = new(Many);
        int needed = 1; // one request is sent alone first
        With(
            engine,
            Scheduling.Inline,
            (request, response, _) =>
            {
                Work work = works.GetOrCreateValue(request.Session);
                ValueTask wait = work.Begin(response);
                lock (gate)
                {
                    waiting.Add(work);
                    if (waiting.Count < needed) return wait;
                    foreach (Work each in waiting) each.Queue();
                    waiting.Clear();
                    return wait;
                }
            },
            (meter, round) =>
            {
                needed = Many;
                meter.ExpectNoneAnywhere($"{Many} requests that wait at once", Rounds, round);
            },
            Many);
    }

    private static async ValueTask YieldAsync(HttpResponse response)
    {
        await Task.Yield();
        response.Bytes(s_text, "text/plain"u8);
    }

    private static void With(string engine, Scheduling scheduling,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler, Action<LoopMeter, Action> measure,
        int connections = Connections)
    {
        using Rig rig = new(engine, static () => new EchoSession());
        HttpServer server = new(
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Scheduling = scheduling
            },
            new HttpOptions { RequestLimit = int.MaxValue });
        server.Get("/", handler);
        Rig.Wait(server.StartAsync().AsTask());
        List<Socket> clients = [];
        try
        {
            for (int i = 0; i < connections; i++)
            {
                Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
                {
                    NoDelay = true,
                    ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
                };
                clients.Add(client);
                client.Connect(server.EndPoint!);
            }

            int length = AnswerBytes(clients[0]);
            measure(rig.Meter, () =>
            {
                foreach (Socket client in clients) client.Send(s_request);
                foreach (Socket client in clients) rig.Read(client, length);
            });
        }
        finally
        {
            foreach (Socket client in clients) client.Dispose();
            Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
        }
    }

    // All responses have the same length, because the Date field has.
    private static int AnswerBytes(Socket client)
    {
        byte[] answer = new byte[1024];
        client.Send(s_request);
        int length = 0;
        while (!answer.AsSpan(0, length).EndsWith(s_text))
        {
            int count = client.Receive(answer, length, answer.Length - length, SocketFlags.None);
            if (count == 0) Assert.Fail($"The connection has ended: {Encoding.ASCII.GetString(answer, 0, length)}");
            length += count;
        }

        return length;
    }

    // An awaitable that allocates nothing: a work item that is its own value task source. One per connection.
    private sealed class Work : IValueTaskSource, IThreadPoolWorkItem
    {
        private ManualResetValueTaskSourceCore<bool> _core;
        private HttpResponse _response;

        internal ValueTask WaitAsync(HttpResponse response)
        {
            ValueTask wait = Begin(response);
            Queue();
            return wait;
        }

        internal ValueTask Begin(HttpResponse response)
        {
            _core.Reset();
            _response = response;
            return new ValueTask(this, _core.Version);
        }

        internal void Queue() => ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);

        void IThreadPoolWorkItem.Execute()
        {
            _response.Bytes(s_text, "text/plain"u8);
            _core.SetResult(true);
        }

        public void GetResult(short token) => _core.GetResult(token);

        public ValueTaskSourceStatus GetStatus(short token) => _core.GetStatus(token);

        public void OnCompleted(Action<object?> continuation, object? state, short token,
            ValueTaskSourceOnCompletedFlags flags) => _core.OnCompleted(continuation, state, token, flags);
    }
}

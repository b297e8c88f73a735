using System.Collections.Concurrent;
using System.Diagnostics.Tracing;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>The counters of the event source "Whimbrel" as a listener sees them. Real engines.</summary>
public sealed class EventCountersTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(30);

    private static readonly string[] s_names =
    [
        "loop-turns", "loop-empty-turns", "loop-blocked-turns", "loop-completions", "loop-completions-per-turn",
        "loop-wakes", "loop-receives", "loop-parked-receives",
        "loop-sends", "loop-bytes-per-send", "loop-connections", "loop-timers", "loop-queue-bytes",
    ];

    private sealed record Seen(string Name, string Loop, double Value);

    private sealed class Listener : EventListener
    {
        internal ConcurrentQueue<Seen> All { get; } = new();

        protected override void OnEventSourceCreated(EventSource eventSource)
        {
            if (eventSource.Name == "Whimbrel")
                EnableEvents(eventSource, EventLevel.Critical, EventKeywords.None,
                    new Dictionary<string, string?> { ["EventCounterIntervalSec"] = "0.1" });
        }

        protected override void OnEventWritten(EventWrittenEventArgs eventData)
        {
            if (eventData.EventName != "EventCounters"
                || eventData.Payload?[0] is not IDictionary<string, object> counter)
                return;
            object? value = counter.TryGetValue("Increment", out object? increment) ? increment : counter["Mean"];
            // "whimbrel.engine:epoll,whimbrel.loop:0"
            string loop = ((string?)counter["Metadata"] ?? "").Split("whimbrel.loop:")[^1].Split(',')[0];
            // Before the constructor has run there is no queue.
            All?.Enqueue(new Seen((string)counter["Name"], loop,
                Convert.ToDouble(value, CultureInfo.InvariantCulture)));
        }

        /// <summary>Counters are published by a timer of the runtime, without an event.</summary>
        internal async Task UntilAsync(Func<Seen[], bool> isSo, string what)
        {
            long began = Environment.TickCount64;
            while (!isSo([.. All]))
            {
                Assert.True(Environment.TickCount64 - began < s_deadline.TotalMilliseconds, what);
                // tidy: waits because a timer of the runtime publishes the counters
                await Task.Delay(10, TestContext.Current.CancellationToken);
            }
        }
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    // For a program that is watched from its start, and for one that has been running for long.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_listener_receives_the_counters_of_each_loop_while_its_engine_runs(bool comesLate)
    {
        // The event source exists now: for sources that do not exist yet, the runtime stores the request.
        await using (Engine first = new(new EngineOptions { Loops = 1 }))
        {
            await first.StartAsync();
            using Listener early = new();
            await early.UntilAsync(static seen => seen.Any(static s => s.Name == "loops"), "the event source");
        }

        Listener? listens = comesLate ? null : new Listener();
        Engine engine = new(new EngineOptions { Loops = 2 });
        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            static () => new Echo());
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Listener listener = listens ?? new Listener();
        using (Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp))
        {
            await socket.ConnectAsync(server.EndPoint!, TestContext.Current.CancellationToken);
            using CancellationTokenSource end =
                CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
            Task talk = TalkAsync(socket, end.Token);
            foreach (string name in s_names)
            {
                await listener.UntilAsync(seen => seen.Any(s => s.Name == name && s.Loop == "0")
                    && seen.Any(s => s.Name == name && s.Loop == "1"), $"{name} of both loops");
            }

            // One connection: only its loop sends, each time an echo of 1,000 bytes.
            await listener.UntilAsync(static seen =>
                seen.Any(static s => s is { Name: "loop-bytes-per-send", Value: 1000 }), "1,000 bytes for each send");
            await listener.UntilAsync(static seen => seen.Any(static s => s is { Name: "loop-sends", Value: > 0 }),
                "sends");
            await listener.UntilAsync(static seen => seen.Any(static s => s is { Name: "loop-turns", Value: > 0 }),
                "turns");
            await listener.UntilAsync(
                static seen => seen.Any(static s => s is { Name: "loop-connections", Value: >= 1 }), "a connection");
            await end.CancelAsync();
            await talk;
        }

        // Counters are published as increments: without traffic they are zero.
        listener.All.Clear();
        await listener.UntilAsync(static seen => seen.Count(static s => s.Name == "loop-sends" && s.Value == 0) >= 4,
            "no more sends");

        await server.DisposeAsync();
        await engine.DisposeAsync();
        await using Engine another = new(new EngineOptions { Loops = 1 });
        await another.StartAsync();
        bool isGone = false;
        for (int i = 0; i < 20 && !isGone; i++)
        {
            listener.All.Clear();
            await listener.UntilAsync(static seen =>
                seen.Count(static s => s is { Name: "loop-turns", Loop: "0" }) >= 3, "the loop of the second engine");
            isGone = listener.All.All(static s => s.Loop is "0" or ""); // "loops" belongs to all of them
        }

        Assert.True(isGone, "the loops of a stopped engine are still reported");
    }

    private static async Task TalkAsync(Socket socket, CancellationToken stop)
    {
        byte[] message = new byte[1000];
        try
        {
            while (true)
            {
                await socket.SendAsync(message, stop);
                for (int got = 0; got < message.Length;)
                {
                    int read = await socket.ReceiveAsync(message.AsMemory(got), stop);
                    Assert.True(read > 0, "the connection ended");
                    got += read;
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The server has closed.
        }
    }
}

using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Whimbrel.Clusters;

namespace Whimbrel.Hosting.Tests;

/// <summary>A singleton service.</summary>
internal sealed class Greeting
{
    internal string Text { get; init; } = "hello ";
}

/// <summary>A scoped service that records its disposal, and on which thread it happened.</summary>
internal sealed class Visit(Visits visits) : IAsyncDisposable
{
    private int _ends;

    internal int Number { get; } = visits.Begin();

    public async ValueTask DisposeAsync()
    {
        visits.WasOnLoop |= Loop.Current is not null;
        await Task.Yield();
        if (visits.Gate is { } gate) await gate.Task;
        visits.End(++_ends);
        if (visits.Throws) throw new InvalidOperationException("no farewell");
    }
}

/// <summary>Records of all visits.</summary>
internal sealed class Visits
{
    private int _begun;
    private int _ended;

    internal int Begun => Volatile.Read(ref _begun);

    internal int Ended => Volatile.Read(ref _ended);

    internal bool WasOnLoop { get; set; }

    internal bool WasTwice { get; private set; }

    internal bool Throws { get; set; }

    internal TaskCompletionSource? Gate { get; set; }

    /// <summary>Connects a client and makes its session throw.</summary>
    internal static async Task AskToThrowAsync(TestHost host)
    {
        await (await host.ConnectAsync()).GetStream()
            .WriteAsync("throw"u8.ToArray(), TestContext.Current.CancellationToken);
    }

    internal int Begin() => Interlocked.Increment(ref _begun);

    internal void End(int times)
    {
        WasTwice |= times > 1;
        Interlocked.Increment(ref _ended);
    }
}

#pragma warning disable CA1812 // instantiated by the container
internal sealed class Echo(Greeting greeting) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(greeting.Text + Encoding.UTF8.GetString(data));
}

/// <summary>Responds with the number of its scope; "hand" hands the connection over to another session, "throw"
/// throws.</summary>
internal sealed class Visitor(Visit visit) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        if (data.SequenceEqual("hand"u8)) HandOver(new Next());
        else if (data.SequenceEqual("throw"u8)) throw new InvalidOperationException("as asked");
        else Send(visit.Number.ToString(System.Globalization.CultureInfo.InvariantCulture));
    }

    private sealed class Next : Session
    {
        protected override void OnConnected() => Send("next");
    }
}

internal sealed class Unmade : Session
{
    public Unmade(Visit visit) => throw new InvalidOperationException($"visit {visit.Number} is not welcome");
}

/// <summary>Has two constructors that the container could use.</summary>
internal sealed class Torn : Session
{
    public Torn()
    {
    }

    public Torn(Visits visits) => Tag = visits;
}

/// <summary>Requires a scoped service.</summary>
internal sealed class Shared(Visits visits) : Session
{
    protected override void OnConnected() => visits.Begin();
}

/// <summary>Sends a large message, which stays in the send queue.</summary>
internal sealed class Bulk : Session
{
    internal const int Bytes = 24 * 1024 * 1024;

    protected override void OnConnected() => Send(new byte[Bytes]);
}

/// <summary>Does not close when its server stops.</summary>
internal sealed class Stubborn : Session
{
    protected override void OnServerStopping()
    {
    }
}

/// <summary>A member of the group "lobby" on all nodes. It sends a line to itself when it joins, and broadcasts what it
/// receives and when it leaves.</summary>
internal sealed class Member([FromKeyedServices("Chat")] Cluster cluster) : Session
{
    protected override void OnConnected()
    {
        cluster.Group("lobby").Join(this);
        Send("in");
    }

    protected override void OnReceived(ReadOnlySpan<byte> data) => cluster.Group("lobby").Broadcast(data);

    protected override void OnDisconnected(CloseReason reason) =>
        cluster.Group("lobby").Broadcast("gone"u8, except: this);
}

/// <summary>Blocks its loop until the gate opens.</summary>
internal sealed class Blocker(ManualResetEventSlim gate) : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => gate.Wait(TestHost.Patience);
}
#pragma warning restore CA1812

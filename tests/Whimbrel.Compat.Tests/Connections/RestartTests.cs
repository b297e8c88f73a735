namespace Whimbrel.Compat.Tests.Connections;

// A command of a client that stops, starts or restarts the server, as many programs have it.
public sealed class RestartTests
{
    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_server_that_a_callback_of_its_session_restarts_serves_the_next_client(EngineKind kind,
        Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new();
        using RecordingServer server = new(log)
        {
            Make = own => new RecordingSession(own)
            {
                AtReceived = (x, text) =>
                {
                    if (text == "restart") log.Add($"restarted {own.Restart()}");
                    else x.SendAsync("answer");
                },
            },
        };
        Assert.True(server.Start());
        using RecordingClient first =
            new(new Log(), server.Chosen) { AtConnected = static c => c.SendAsync("restart") };
        Assert.True(first.ConnectAsync());
        log.Until("restarted True");
        // The server listens when the callback has returned; until then a connect fails, or ends.
        Log clientLog = new();
        bool isDone = false;
        using RecordingClient last = new(clientLog, server.Chosen)
        {
            AtConnected = static c => c.SendAsync("hello"),
            AtDisconnected = c => _ = !Volatile.Read(ref isDone) && c.ConnectAsync(),
        };
        Assert.True(last.ConnectAsync());
        clientLog.Until("client: received answer");
        Volatile.Write(ref isDone, true);
        Assert.True(server.IsStarted && server.IsAccepting);
    }
}

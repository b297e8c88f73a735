using Whimbrel;

// The address is the first argument: tcp://*:1111 for every address of this machine, unix:/run/echo.sock for a Unix
// socket.
await using Server server = new(
    new ServerOptions
    {
        Address = args.Length > 0 ? args[0] : "tcp://127.0.0.1:1111",
        Limits = new() { Connections = 10_000 },
        Timeouts = new() { Idle = TimeSpan.FromMinutes(10) },
        OnDiagnosticEvent = notice => Console.Error.WriteLine(notice), // warnings for the operator
    },
    () => new EchoSession());
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint} on {server.Engine}. Ctrl-C stops.");

// Ctrl-C and SIGTERM: no new connection is accepted, and existing ones have ten seconds to finish.
await StopSignal.WaitAsync();
StopReport report = await server.StopAsync(TimeSpan.FromSeconds(10));
Console.WriteLine($"Stopped: {report}");

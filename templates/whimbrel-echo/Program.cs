using System.Runtime.InteropServices;
using Whimbrel;

// The address is the first argument: tcp://*:1111 for every address of this machine, unix:/run/echo.sock for a Unix socket.
await using Server server = new(
    new ServerOptions
    {
        Address = args.Length > 0 ? args[0] : "tcp://127.0.0.1:1111",
        MaxConnections = 10_000,
        IdleTimeout = TimeSpan.FromMinutes(10),
        OnNotice = notice => Console.Error.WriteLine(notice), // what somebody who runs it should know
    },
    () => new EchoSession());
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint} on {server.Engine}. Ctrl-C stops.");

// Ctrl-C and SIGTERM: nobody new is let in, and who is here has ten seconds to finish.
TaskCompletionSource stop = new(TaskCreationOptions.RunContinuationsAsynchronously);
using PosixSignalRegistration interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, Stop);
using PosixSignalRegistration terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Stop);
await stop.Task;
StopReport report = await server.StopAsync(TimeSpan.FromSeconds(10));
Console.WriteLine($"Stopped: {report}");

void Stop(PosixSignalContext signal)
{
    signal.Cancel = true; // the program ends by itself
    stop.TrySetResult();
}

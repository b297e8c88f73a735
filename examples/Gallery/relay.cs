#:project ../../src/Whimbrel.Relays/Whimbrel.Relays.csproj
// A TCP load balancer: each connection goes to the target with the fewest, and targets that are down are left out.
// Try it: dotnet run relay.cs tcp://127.0.0.1:8000 tcp://127.0.0.1:5001 tcp://127.0.0.1:5002
using Whimbrel;
using Whimbrel.Relays;

if (args is not [string address, _, ..])
{
    Console.Error.WriteLine("usage: relay.cs ADDRESS TARGET...");
    return 2;
}

RelayOptions options = new()
{
    Targets = args[1..],
    CheckEvery = TimeSpan.FromSeconds(2),
    OnTargetChanged = target => Console.WriteLine(target),
};
ServerOptions clients = new() { Address = address, Limits = new() { Connections = 10_000 } };
await using Relay relay = new(clients, options);
await relay.StartAsync();
Console.WriteLine($"Relaying at {relay.Server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

// A proxy does not know where messages end: clients have ten seconds to finish.
Console.WriteLine($"Stopped: {await relay.StopAsync(TimeSpan.FromSeconds(10))}");
return 0;

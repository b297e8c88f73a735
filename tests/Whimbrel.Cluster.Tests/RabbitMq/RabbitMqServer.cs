using Whimbrel.Http.Tests.Programs;
using static System.FormattableString;

namespace Whimbrel.Tests.RabbitMq;

// One server for a class of tests, because it takes seconds to start; tests are separated by their exchanges. Plain and
// TLS, and users with different permissions.
public sealed class RabbitMqServer : IAsyncLifetime
{
    // Data that a restarted server finds, as in production. Creating its database takes most of the time of a start.
    private readonly string _data = Directory.CreateTempSubdirectory("whimbrel-rabbit-").FullName;
    private RabbitMqProgram? _program;

    internal int Port { get; } = RealProgram.FreePort();

    internal int TlsPort { get; } = RealProgram.FreePort();

    public ValueTask InitializeAsync() => StartAsync();

    public async ValueTask DisposeAsync()
    {
        await LoseAsync();
        RealProgram.Remove(_data);
    }

    // Starts the server unless it runs: a failed test may have stopped it.
    internal async ValueTask StartAsync() => _program ??= await RabbitMqProgram.ServeAsync(Port, Settings, _data);

    internal async ValueTask StopAsync()
    {
        if (_program is { } program) await program.StopAsync();
        await LoseAsync();
    }

    internal async ValueTask LoseAsync()
    {
        if (_program is { } program) await program.DisposeAsync();
        _program = null;
    }

    private string Settings(string directory)
    {
        (string certificate, string key) = ProgramBroker.WriteCertificate(directory);
        File.WriteAllText(Path.Combine(directory, "users.json"), """
            { "vhosts": [ { "name": "/" }, { "name": "other one" } ],
              "users": [ { "name": "guest", "password": "guest", "tags": "" }, { "name": "chat", "password": "to:ken", "tags": "" }, { "name": "poor", "password": "poor", "tags": "" } ],
              "permissions": [ { "user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*" },
                { "user": "chat", "vhost": "other one", "configure": "^whimbrel", "write": "^whimbrel", "read": "^whimbrel" },
                { "user": "poor", "vhost": "/", "configure": "^$", "write": ".*", "read": ".*" } ] }
            """);
        return Invariant($"""
            listeners.ssl.1 = 127.0.0.1:{TlsPort}
            ssl_options.certfile = {certificate}
            ssl_options.keyfile = {key}
            ssl_options.cacertfile = {certificate}
            ssl_options.verify = verify_none
            load_definitions = {directory}/users.json
            """);
    }
}

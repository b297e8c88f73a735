using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;
using static System.FormattableString;

namespace Whimbrel.Tests.RabbitMq;

// One server for a class of tests, since it takes seconds to start: what they do is kept apart by their exchanges. Plain and TLS, and users that may do this and that.
public sealed class RabbitMqServer : IAsyncLifetime
{
    private readonly int _epmd = RealProgram.FreePort();
    private readonly int _nodes = RealProgram.FreePort();
    private RealProgram? _program;

    internal int Port { get; } = RealProgram.FreePort();

    internal int TlsPort { get; } = RealProgram.FreePort();

    public async ValueTask InitializeAsync()
    {
        // What goes by the name of the command in the PATH changes the user and starts with the settings of the machine.
        const string Command = "/usr/lib/rabbitmq/bin/rabbitmq-server";
        Assert.SkipWhen(!File.Exists(Command), "rabbitmq-server is not installed");
        _program = await RealProgram.ServeAsync("env", Port, directory => [.. Settings(directory), Command]);
    }

    public ValueTask DisposeAsync() => LoseAsync();

    internal async ValueTask LoseAsync()
    {
        if (_program is null) return;
        _program.Dispose();
        _program = null;
        // Erlang starts its name server beside it, which would stay.
        using RealProgram end = RealProgram.Start("env", Invariant($"ERL_EPMD_PORT={_epmd}"), "epmd", "-kill");
        await end.EndAsync();
    }

    private IEnumerable<string> Settings(string directory)
    {
        (string certificate, string key) = ProgramBroker.WriteCertificate(directory);
        File.WriteAllText(Path.Combine(directory, "users.json"), """
            { "vhosts": [ { "name": "/" }, { "name": "other one" } ],
              "users": [ { "name": "guest", "password": "guest", "tags": "" }, { "name": "chat", "password": "to:ken", "tags": "" }, { "name": "poor", "password": "poor", "tags": "" } ],
              "permissions": [ { "user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*" },
                { "user": "chat", "vhost": "other one", "configure": "^whimbrel", "write": "^whimbrel", "read": "^whimbrel" },
                { "user": "poor", "vhost": "/", "configure": "^$", "write": ".*", "read": ".*" } ] }
            """);
        File.WriteAllText(Path.Combine(directory, "rabbit.conf"), Invariant($"""
            listeners.tcp.1 = 127.0.0.1:{Port}
            listeners.ssl.1 = 127.0.0.1:{TlsPort}
            ssl_options.certfile = {certificate}
            ssl_options.keyfile = {key}
            ssl_options.cacertfile = {certificate}
            ssl_options.verify = verify_none
            load_definitions = {directory}/users.json

            """));
        File.WriteAllText(Path.Combine(directory, "plugins"), "[].");
        return
        [
            $"HOME={directory}", Invariant($"ERL_EPMD_PORT={_epmd}"), "ERL_EPMD_ADDRESS=127.0.0.1", Invariant($"RABBITMQ_NODENAME=w{Port}@localhost"), Invariant($"RABBITMQ_DIST_PORT={_nodes}"),
            $"RABBITMQ_MNESIA_BASE={directory}", $"RABBITMQ_LOG_BASE={directory}", "RABBITMQ_LOGS=-", $"RABBITMQ_ENABLED_PLUGINS_FILE={directory}/plugins",
            $"RABBITMQ_CONFIG_FILE={directory}/rabbit.conf", $"RABBITMQ_CONF_ENV_FILE={directory}/none", $"RABBITMQ_PID_FILE={directory}/pid",
        ];
    }
}

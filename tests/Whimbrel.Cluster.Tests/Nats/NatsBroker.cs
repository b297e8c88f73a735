using Whimbrel.Clusters;
using Whimbrel.Conformance;

namespace Whimbrel.Tests.Nats;

internal sealed class NatsBroker : ProgramBroker
{
    private readonly string _configuration;

    internal NatsBroker(string configuration, bool isTls)
        : base("nats-server")
    {
        _configuration = configuration;
        IsTls = isTls;
    }

    internal bool IsTls { get; }

    // What buses that Connect makes log in with.
    internal string Login { get; init; } = "";

    internal string Address => $"nats://{Login}127.0.0.1:{Port}";

    // Where JetStream keeps what it keeps when the broker is started again. Null: nowhere.
    internal string? StoreDirectory { get; init; }

    // With JetStream.
    internal bool IsStreaming { get; init; }

    // Servers of a cluster have names.
    internal string Name { get; init; } = "";

    internal static async Task<NatsBroker> StartAsync(string configuration = "", bool isTls = false, string login = "", bool isStreaming = false, string name = "")
    {
        NatsBroker broker = new(configuration, isTls) { Login = login, IsStreaming = isStreaming, Name = name };
        await broker.RestoreAsync();
        return broker;
    }

    public override IGroupBus Connect() => new NatsBus(Address, IsTls ? new NatsOptions { Tls = TestCertificates.ClientOptions } : null);

    protected override string[] Arguments(string directory)
    {
        string tls = "";
        if (IsTls)
        {
            (string certificate, string key) = WriteCertificate(directory);
            tls = $"tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n";
        }

        string file = Path.Combine(directory, "nats.conf");
        File.WriteAllText(file, $"listen: \"127.0.0.1:{Port}\"\n{(Name.Length > 0 ? $"server_name: {Name}\n" : "")}{tls}{(IsStreaming ? $"jetstream {{ store_dir: \"{StoreDirectory ?? directory}\", max_mem: 1GB }}\n" : "")}{_configuration}\n");
        return ["-c", file];
    }
}

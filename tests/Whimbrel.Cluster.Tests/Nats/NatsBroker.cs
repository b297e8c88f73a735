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

    // Credentials of the buses that Connect creates.
    internal string Login { get; init; } = "";

    internal string Address => $"nats://{Login}127.0.0.1:{Port}";

    // Directory of JetStream's data, which survives a restart. Null: no directory.
    internal string? StoreDirectory { get; init; }

    // True to enable JetStream.
    internal bool IsStreaming { get; init; }

    // Servers of a cluster have names.
    internal string Name { get; init; } = "";

    internal static async Task<NatsBroker> StartAsync(string configuration = "", bool isTls = false, string login = "",
        bool isStreaming = false, string name = "")
    {
        NatsBroker broker = new(configuration, isTls) { Login = login, IsStreaming = isStreaming, Name = name };
        await broker.RestoreAsync();
        return broker;
    }

    public override IGroupBus Connect() =>
        new NatsBus(Address, IsTls ? new NatsOptions { Tls = TestCertificates.ClientOptions } : null);

    protected override string[] Arguments(string directory)
    {
        string tls = "";
        if (IsTls)
        {
            (string certificate, string key) = WriteCertificate(directory);
            tls = $"tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n";
        }

        string file = Path.Combine(directory, "nats.conf");
        File.WriteAllText(file,
            $"listen: \"127.0.0.1:{Port}\"\n{(Name.Length > 0 ? $"server_name: {Name}\n" : "")}{tls}"
            + $"{(IsStreaming ? $"jetstream {{ store_dir: \"{StoreDirectory ?? directory}\", max_mem: 1GB }}\n" : "")}"
            + $"{_configuration}\n");
        return ["-c", file];
    }
}

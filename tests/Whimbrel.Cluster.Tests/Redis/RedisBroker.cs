using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

internal sealed class RedisBroker : ProgramBroker
{
    private readonly string _configuration;
    private readonly RedisOptions? _options;
    private readonly bool _isTls;

    private RedisBroker(string configuration, bool isTls, string login, RedisOptions? options)
        : base("redis-server")
    {
        (_configuration, _isTls, _options) = (configuration, isTls, options);
        Address = $"redis://{login}127.0.0.1:{Port}";
    }

    internal string Address { get; }

    // `options` is used by the buses that Connect creates.
    internal static async Task<RedisBroker> StartAsync(string configuration = "", bool isTls = false, string login = "",
        RedisOptions? options = null)
    {
        RedisBroker broker = new(configuration, isTls, login, options);
        await broker.RestoreAsync();
        return broker;
    }

    public override IGroupBus Connect() => new RedisBus(Address, _options);

    protected override string[] Arguments(string directory)
    {
        string port = $"port {Port}\n";
        if (_isTls)
        {
            (string certificate, string key) = WriteCertificate(directory);
            port = $"port 0\ntls-port {Port}\ntls-cert-file {certificate}\ntls-key-file {key}\ntls-ca-cert-file "
                + $"{certificate}\ntls-auth-clients no\n";
        }

        string file = Path.Combine(directory, "redis.conf");
        File.WriteAllText(file, $"{port}bind 127.0.0.1\nsave \"\"\nappendonly no\ndaemonize no\n{_configuration}\n");
        return [file];
    }
}

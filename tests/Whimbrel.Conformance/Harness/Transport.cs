namespace Whimbrel.Conformance;

/// <summary> The environment of a suite: an engine and a kind of socket. <see cref="Seeds"/> has more than one entry if
/// a seed decides the order of events; every test runs once with each. </summary>
public sealed record Transport(string Name, IReadOnlyList<int> Seeds, Func<int, int, Rig> Make)
{
    public override string ToString() => Name;

    private static readonly int[] s_noSeed = [0];

    public static Transport UringTcp { get; } = new("uring tcp", s_noSeed,
        static (_, loops) => Uring(isUnix: false, loops));

    public static Transport UringUnix { get; } = new("uring unix", s_noSeed,
        static (_, loops) => Uring(isUnix: true, loops));

    public static Transport EpollTcp { get; } = new("epoll tcp", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: false, loops));

    public static Transport EpollUnix { get; } = new("epoll unix", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: true, loops));

    public static Transport PortableTcp { get; } = new("portable tcp", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Portable, isUnix: false, loops));

    public static Transport PortableUnix { get; } = new("portable unix", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Portable, isUnix: true, loops));

    /// <summary>Skips the test with a reason if the engine cannot run.</summary>
    internal static void Needs(EngineKind kind)
    {
        if (kind == EngineKind.Uring)
            Assert.SkipUnless(Engines.Uring.UringProbe.Here.IsOffered, Engines.Uring.UringProbe.Here.Reason);
    }

    private static RealRig Uring(bool isUnix, int loops, TlsKind tls = TlsKind.None, bool isPool = false)
    {
        Needs(EngineKind.Uring);
        return new RealRig(EngineKind.Uring, isUnix, loops, isPool) { Tls = tls };
    }

    public static Transport UringPool { get; } = new("uring pool", s_noSeed,
        static (_, loops) => Uring(isUnix: false, loops, isPool: true));

    public static Transport UringTls { get; } = new("uring tls", s_noSeed,
        static (_, loops) => Uring(isUnix: false, loops, TlsKind.Portable));

    public static Transport EpollPool { get; } = new("epoll pool", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: false, loops, isPool: true));

    public static Transport PortablePool { get; } = new("portable pool", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Portable, isUnix: true, loops, isPool: true));

    public static Transport EpollTls { get; } = new("epoll tls", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: false, loops) { Tls = TlsKind.Portable });

    public static Transport EpollUnixTls { get; } = new("epoll unix tls", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: true, loops) { Tls = TlsKind.Portable });

    public static Transport EpollPoolTls { get; } = new("epoll pool tls", s_noSeed, static (_, loops) =>
        new RealRig(EngineKind.Epoll, isUnix: false, loops, isPool: true) { Tls = TlsKind.Portable });

    public static Transport PortableTls { get; } = new("portable tls", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Portable, isUnix: false, loops) { Tls = TlsKind.Portable });

    /// <summary>Plain; if TLS is requested, with the OpenSSL provider.</summary>
    public static Transport EpollWithOpenSsl { get; } = new("epoll with openssl", s_noSeed,
        static (_, loops) => new RealRig(EngineKind.Epoll, isUnix: false, loops) { Provider = TlsProvider.OpenSsl });

    public static Transport EpollPoolWithOpenSsl { get; } = new("epoll pool with openssl",
        s_noSeed, static (_, loops) =>
            new RealRig(EngineKind.Epoll, isUnix: false, loops, isPool: true) { Provider = TlsProvider.OpenSsl });

    /// <summary>TLS from the start, with the OpenSSL provider; the tests' peers use SslStream.</summary>
    public static Transport EpollOpenSsl { get; } = new("epoll openssl", s_noSeed, static (_, loops) =>
        new RealRig(EngineKind.Epoll, isUnix: false, loops) { Tls = TlsKind.Portable, Provider = TlsProvider.OpenSsl });

#if MEMORY
    public static Transport MemoryOpenSsl { get; } = new("memory openssl", MemorySeeds(), static (seed, loops) =>
        new MemoryRig(seed, isUnix: false, loops) { Tls = TlsKind.Portable, Provider = TlsProvider.OpenSsl });

    public static Transport MemoryTls { get; } = new("memory tls", MemorySeeds(),
        static (seed, loops) => new MemoryRig(seed, isUnix: false, loops) { Tls = TlsKind.Fake });

    public static Transport MemorySslStream { get; } = new("memory sslstream", MemorySeeds(),
        static (seed, loops) => new MemoryRig(seed, isUnix: false, loops) { Tls = TlsKind.Portable });

    public static Transport MemoryPool { get; } = new("memory pool", MemorySeeds(),
        static (seed, loops) => new MemoryRig(seed, isUnix: false, loops, isPool: true));

    public static Transport MemoryTcp { get; } = new("memory tcp", MemorySeeds(),
        static (seed, loops) => new MemoryRig(seed, isUnix: false, loops));

    public static Transport MemoryUnix { get; } = new("memory unix", MemorySeeds(),
        static (seed, loops) => new MemoryRig(seed, isUnix: true, loops));

    private static int[] MemorySeeds() =>
        int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEED"), out int forced)
            ? [forced]
            : [.. Enumerable.Range(1, Depth.IsDeep ? 50 : 3)];
#endif
}

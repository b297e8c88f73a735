namespace Whimbrel.Bench.Peers;

/// <summary>Sends what the old multicast servers send: a million messages a second, one per call, from a separate
/// thread. Here they are numbered.</summary>
internal static class OldProducer
{
    /// <summary>A session with this many pending bytes misses messages (W3).</summary>
    public const int MostPending = 1024 * 1024;

    private const int Rate = 1_000_000;

    public static void Start(Action<byte[]> multicast) => new Thread(() =>
    {
        var message = new byte[Message.Size];
        for (ulong sequence = 0; ;)
        {
            var start = Environment.TickCount64;
            for (var i = 0; i < Rate; i++)
            {
                Message.Write(message, sequence++);
                multicast(message);
            }

            Thread.Sleep((int)Math.Max(0, 1000 - (Environment.TickCount64 - start)));
        }
    })
    { IsBackground = true, Name = "producer" }.Start();
}

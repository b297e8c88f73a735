using System.Runtime.ExceptionServices;

namespace Whimbrel.Conformance;

/// <summary> Base of the abstract suites: each test is one call of <see cref="Run"/>, and a concrete class of one line
/// selects the transport. A new engine is one file of such lines. </summary>
public abstract class Suite(Transport transport)
{
    /// <summary>
    /// Runs the test with a new rig, once per seed, and then lets the rig check that everything was released.
    /// </summary>
    /// <param name="test">The test.</param>
    /// <param name="loops">Number of loops of the engine. With two, a session sometimes lives on another loop than its
    /// listener.</param>
    protected void Run(Action<Rig> test, int loops = 2)
    {
        ArgumentNullException.ThrowIfNull(test);
        QuickSelection.SkipOthers(GetType());
        foreach (int seed in transport.Seeds)
        {
            Rig rig = transport.Make(seed, loops);
            try
            {
                test(rig);
                rig.Finish();
            }
            catch (Exception e) when (e.GetType().Name != "SkipException")
            {
                string story = rig.Story();
                rig.GiveUp();
                Assert.Fail($"{transport}, seed {seed}: {e}\n{story}");
            }
        }
    }

    /// <summary>Runs the action on a separate thread, even inside a callback, and waits until it has ended; also in
    /// virtual time.</summary>
    protected static void OnThread(Action action)
    {
        ExceptionDispatchInfo? thrown = null;
        Thread thread = new(() =>
        {
            try
            {
                action();
            }
            catch (Exception e)
            {
                thrown = ExceptionDispatchInfo.Capture(e);
            }
        });
        thread.Start();
        Assert.True(thread.Join(TimeSpan.FromSeconds(15)), "the other thread did not end");
        thrown?.Throw();
    }

    /// <summary>The close cause after an abort of the other end: Unix sockets have no reset, only an end.</summary>
    protected static CloseCause ResetSeen(Rig rig) => rig.HasResets ? CloseCause.PeerReset : CloseCause.PeerClosed;

    /// <summary>Another thread sends data in pieces from a few bytes up to large ones, while this one reads the same
    /// number of bytes back.</summary>
    protected static byte[] ThereAndBack(Rig rig, Peer peer, byte[] all, int seed)
    {
        rig.Elsewhere(() =>
        {
            Random sizes = new(seed);
            for (int sent = 0; sent < all.Length;)
            {
                int count = Math.Min(all.Length - sent, sizes.Next(3) switch
                {
                    0 => sizes.Next(1, 200),
                    1 => sizes.Next(1, 40_000),
                    _ => sizes.Next(100_000, rig.IsVirtual ? 150_000 : 600_000)
                });
                peer.Write(all.AsSpan(sent, count).ToArray());
                sent += count;
            }
        });
        byte[] back = peer.Read(all.Length);
        rig.Join();
        return back;
    }

    /// <summary>Bytes with values that depend on their offset, so that a lost, repeated or moved one is
    /// detected.</summary>
    protected static byte[] Pattern(int length, int seed = 7)
    {
        byte[] bytes = new byte[length];
        Noise.Fill(bytes, seed);
        return bytes;
    }

    protected static byte[] Bytes(string text) => System.Text.Encoding.ASCII.GetBytes(text);

    protected static string Text(ReadOnlySpan<byte> bytes) => System.Text.Encoding.ASCII.GetString(bytes);
}

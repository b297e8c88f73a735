using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Tests.Connections;

public sealed class OrderedCallsTests
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    [Fact]
    public void A_call_made_while_another_thread_runs_calls_is_left_to_it_and_they_run_in_order()
    {
        OrderedCalls calls = new();
        List<(string What, int Thread)> ran = [];
        using ManualResetEventSlim isAtIt = new(), goesOn = new();
        int first = 0;
        Thread other = new(() =>
        {
            first = Environment.CurrentManagedThreadId;
            calls.Run(
                () =>
                {
                    isAtIt.Set();
                    Assert.True(goesOn.Wait(Patience));
                    Add("first");
                },
                static _ => { });
        });
        other.Start();
        Assert.True(isAtIt.Wait(Patience));
        calls.Run(() => Add("second"), static _ => { });
        calls.Run(() => Add("third"), static _ => { });
        Assert.Empty(ran);
        goesOn.Set();
        calls.AwaitIdle(Patience);
        Assert.Equal([("first", first), ("second", first), ("third", first)], ran);
        Assert.True(other.Join(Patience));

        void Add(string what) => ran.Add((what, Environment.CurrentManagedThreadId));
    }

    [Fact] // from both sides: not before the callback has returned, and long before the time limit
    public void A_wait_for_callbacks_ends_with_the_last_of_them()
    {
        OrderedCalls calls = new();
        for (int i = 0; i < 3; i++)
        {
            using ManualResetEventSlim begun = new(), goOn = new();
            bool isOver = false, wasOver = false;
            Thread running = new(() => calls.Run(() =>
            {
                begun.Set();
                Assert.True(goOn.Wait(Log.Patience));
                Volatile.Write(ref isOver, true);
            }, static _ => { }));
            running.Start();
            Assert.True(begun.Wait(Log.Patience));
            Thread waiting = new(() =>
            {
                calls.AwaitIdle(TimeSpan.FromHours(1));
                wasOver = Volatile.Read(ref isOver);
            });
            waiting.Start();
            Log.Until(() => waiting.ThreadState.HasFlag(System.Threading.ThreadState.WaitSleepJoin), "the wait");
            goOn.Set();
            Assert.True(waiting.Join(Log.Patience), "The wait goes to its limit.");
            Assert.True(running.Join(Log.Patience) && wasOver);
        }
    }

    [Fact]
    public void A_callback_caused_by_a_call_on_its_own_thread_runs_inside_it()
    {
        OrderedCalls calls = new();
        List<string> ran = [];
        calls.Run(
            () =>
            {
                ran.Add("outer begins");
                calls.Run(() => ran.Add("inner"), static _ => { });
                calls.AwaitIdle(Patience); // waits for callbacks of other threads only
                ran.Add("outer ends");
            },
            static _ => { });
        Assert.Equal(["outer begins", "inner", "outer ends"], ran);
    }

    [Fact]
    public void An_exception_is_thrown_to_its_caller_after_the_remaining_calls_and_other_callers_get_their_own()
    {
        OrderedCalls calls = new();
        List<string> ran = [];
        using ManualResetEventSlim isAtIt = new(), goesOn = new();
        Exception? thrown = null;
        Thread other = new(() => thrown = Record.Exception(() => calls.Run(
            () =>
            {
                isAtIt.Set();
                Assert.True(goesOn.Wait(Patience));
                throw new FormatException("own");
            },
            static _ => { })));
        other.Start();
        Assert.True(isAtIt.Wait(Patience));
        calls.Run(static () => throw new InvalidOperationException("left"), e => ran.Add(e.Message));
        calls.Run(() => ran.Add("behind it"), static _ => { });
        goesOn.Set();
        Assert.True(other.Join(Patience));
        Assert.Equal("own", Assert.IsType<FormatException>(thrown).Message);
        Assert.Equal(["left", "behind it"], ran);
        calls.Run(() => ran.Add("goes on"), static _ => { });
        Assert.Equal("goes on", ran[^1]);
    }
}

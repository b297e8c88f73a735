using System.Threading.Tasks.Sources;

namespace Whimbrel.Engines;

/// <summary>
/// Distinguishes <c>AsTask()</c>, which a blocking caller has to use, from an await. Both pass the same flags, but the
/// continuation of <c>AsTask</c> is one delegate of the runtime for each result type. A probe reads that delegate once.
/// If a runtime creates one per call, nothing is recognised, and every continuation runs in the session's order.
/// </summary>
internal static class AsTaskContinuation
{
    internal static bool Is<T>(Action<object?> continuation) =>
        ReferenceEquals(continuation, Of<T>.WithResult) || ReferenceEquals(continuation, Of<T>.Plain);

    private static class Of<T>
    {
        internal static readonly Action<object?>? WithResult =
            Probe.Learn(static probe => _ = new ValueTask<T>(probe, 0).AsTask());

        internal static readonly Action<object?>? Plain =
            Probe.Learn(static probe => _ = new ValueTask(probe, 0).AsTask());

        private sealed class Probe : IValueTaskSource<T>, IValueTaskSource
        {
            private Action<object?>? _given;

            internal static Action<object?>? Learn(Action<Probe> asTask)
            {
                Probe probe = new();
                asTask(probe);
                return probe._given;
            }

            public ValueTaskSourceStatus GetStatus(short token) => ValueTaskSourceStatus.Pending;

            public void OnCompleted(Action<object?> continuation, object? state, short token,
                ValueTaskSourceOnCompletedFlags flags) => _given = continuation;

            public T GetResult(short token) =>
                throw new NotSupportedException("It is asked for its continuation only.");

            void IValueTaskSource.GetResult(short token) => GetResult(token);
        }
    }
}

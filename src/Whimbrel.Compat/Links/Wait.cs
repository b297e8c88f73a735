namespace Whimbrel.Compat.Links;

/// <summary>Blocks the calling thread, as the original APIs do.</summary>
internal static class Wait
{
    internal static T For<T>(ValueTask<T> task)
    {
        if (task.IsCompletedSuccessfully) return task.Result;
#pragma warning disable VSTHRD002, CA1849 // the original API waits, on a thread that is not a loop's
        return task.AsTask().GetAwaiter().GetResult();
    }

    internal static T For<T>(Task<T> task) => task.GetAwaiter().GetResult();

    /// <summary>False if the task has not completed in time.</summary>
    internal static bool For(Task task, int milliseconds) => task.Wait(milliseconds);

    internal static void For(ValueTask task)
    {
        if (!task.IsCompletedSuccessfully) task.AsTask().GetAwaiter().GetResult();
    }
#pragma warning restore VSTHRD002, CA1849
}

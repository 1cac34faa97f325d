"""What all questions share: sides in processes of their own, results, input and stores."""
